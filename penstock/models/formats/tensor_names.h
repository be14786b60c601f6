// A model's tensors by name: as it holds them, and as files do (Hugging Face's names, one tensor
// per expert and per projection, whatever is fused in memory).
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

/// Throws Error naming every kind of mismatch: a missing, an unknown or a wrongly shaped tensor.
/// `where` stands for the file in errors. REQUIRES: config is resolved.
void check_file_tensors(const ModelConfig& config, const std::map<std::string, at::Tensor>& tensors,
                        const std::string& where);

/// Copies the given tensors into the model, once check_file_tensors() has found nothing.
void load_file_tensors(LanguageModel& model, const std::map<std::string, at::Tensor>& tensors,
                       const std::string& where);

}  // namespace penstock
