// Finds the tensors of a model in safetensors files, under any of the names and layouts in which
// models are published.
#pragma once

#include <map>
#include <string>

#include "penstock/io/safetensors.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// Views of all tensors of the config, under Penstock's names (models/formats/tensor_names.h).
/// Experts may be stored one by one as `mlp.experts.<e>.{gate,up,down}_proj.weight` or with the
/// names `w1`, `w3` and `w2`. They may also be stored together: `experts.gate_up_proj` [E, 2f, d],
/// gate first, and `experts.down_proj` [E, d, f]. The prefix is `mlp.` or `block_sparse_moe.`.
/// Files may also hold an `lm_head` that equals tied embeddings bit for bit, and
/// `rotary_emb.inv_freq`, which follows from the config.
/// @param ignored  unless empty, tensors whose names begin with this are skipped
/// @param origin   the files' path in error messages
/// Throws Error that names the tensor if it is missing, stored twice, unknown, not floating-point
/// or of another shape. The message says so if it is transposed.
std::map<std::string, TensorView> find_tensors(const ModelConfig& config,
                                               const SafetensorsModel& files,
                                               const std::string& ignored,
                                               const std::string& origin);

}  // namespace penstock
