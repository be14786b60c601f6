// The two names of a model's tensors: in the model and in files. Files have Hugging Face's names,
// with one tensor per expert and per projection even if the model fuses them.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "penstock/models/language_model.h"

namespace penstock {

/// Parameters and buffers of a model by their own names. They alias the model.
std::map<std::string, at::Tensor> held_tensors(const LanguageModel& model);

/// Views of every parameter and buffer under its file name (models/counts/model_tensors.h). The
/// views alias the model.
///   layer_3.mlp.experts.gate_up [E, 2f, d] -> model.layers.3.mlp.experts.<e>.{gate,up}_proj.weight
///   layer_3.self_attn.qkv_proj.weight [(H+2G)·hd, d] ->
///   model.layers.3.self_attn.{q,k,v}_proj.weight
/// Balancers' state is under penstock.balancer_<i>.
std::map<std::string, at::Tensor> file_tensors(LanguageModel& model);

/// Throws Error that lists every mismatch: missing, unknown and wrongly shaped tensors. `where` is
/// the file's name in error messages.
/// REQUIRES: config is resolved.
void check_file_tensors(const ModelConfig& config, const std::map<std::string, at::Tensor>& tensors,
                        const std::string& where);

/// Copies the given tensors into the model after check_file_tensors() has found no mismatch.
void load_file_tensors(LanguageModel& model, const std::map<std::string, at::Tensor>& tensors,
                       const std::string& where);

}  // namespace penstock
