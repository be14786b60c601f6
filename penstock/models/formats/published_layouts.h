// Where the tensors of a model lie in safetensors files, by any of the names and layouts in which
// they are published.
#pragma once

#include <map>
#include <string>

#include "penstock/io/safetensors.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// Views of everything that the config asks for, under Penstock's names
/// (models/formats/tensor_names.h). Experts are found one by one as
/// `mlp.experts.<e>.{gate,up,down}_proj.weight` or `w1`, `w3` and `w2`, or all in one:
/// `experts.gate_up_proj` [E, 2f, d], gate first, and `experts.down_proj` [E, d, f]; each under
/// `mlp.` or `block_sparse_moe.`. Beside them files may hold an `lm_head` that equals the
/// embeddings bit for bit where those are tied, and `rotary_emb.inv_freq`, which follows from the
/// config.
/// @param ignored  where not empty, names that begin so are passed over
/// @param origin   of the files, for errors
/// Throws Error naming the tensor for one that is missing, there twice, unknown, of another shape
/// (saying so where it is transposed) or no floating-point type.
std::map<std::string, TensorView> find_tensors(const ModelConfig& config,
                                               const SafetensorsModel& files,
                                               const std::string& ignored,
                                               const std::string& origin);

}  // namespace penstock
