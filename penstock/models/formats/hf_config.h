// Reads config.json of Hugging Face's decoders as Penstock's ModelConfig. It does not look at
// tensors.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "penstock/models/model_config.h"

namespace penstock {

/// The model that a config.json describes; its model_type must be one of
/// models/formats/architectures.h. An absent key has the default of the class. Five keys must be
/// there: vocab_size, hidden_size, num_hidden_layers, num_attention_heads, and intermediate_size if
/// experts have no width of their own. Experts become method `topk`. Mixtral's gates are a softmax
/// over the chosen logits. Other classes' gates are a softmax over all logits, with
/// `norm_topk_prob`. `router_aux_loss_coef` becomes the balance loss's coefficient unchanged,
/// although transformers does not divide that loss by k as Penstock does.
/// Throws Error that names the key if it is missing or malformed, or if it asks for something that
/// the decoder does not compute: other position scalings, sliding windows shorter than the context,
/// other activations, biases beyond q, k and v, quantised weights, or dense layers that do not fit
/// moe.dense_layers, moe.every and moe.first_layers.
/// @param path  of the file, for error messages
ModelConfig hf_model_config(const nlohmann::json& config, const std::string& path);

}  // namespace penstock
