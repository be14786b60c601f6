// config.json as Hugging Face's decoders write it, read as Penstock's ModelConfig. Tensors are not
// looked at here.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "penstock/models/model_config.h"

namespace penstock {

/// The model that a config.json of a model_type of models/formats/architectures.h describes; a key
/// that is absent has the default of that class, but for vocab_size, hidden_size, intermediate_size
/// (where experts have no width of their own), num_hidden_layers and num_attention_heads, which
/// must be there. Experts become method `topk`: Mixtral's with softmax over the chosen logits, the
/// others' with softmax over all and `norm_topk_prob`; `router_aux_loss_coef` is taken for the
/// balance loss's coefficient as it is, though transformers does not divide the loss by k as
/// Penstock does. Throws Error naming the key for anything that is missing, malformed or computes
/// what the decoder does not: other position scalings, sliding windows shorter than the context,
/// other activations, biases beyond q, k and v, quantised weights, dense layers that do not fit
/// moe.dense_layers, moe.every and moe.first_layers.
/// @param path  of the file, for errors
ModelConfig hf_model_config(const nlohmann::json& config, const std::string& path);

}  // namespace penstock
