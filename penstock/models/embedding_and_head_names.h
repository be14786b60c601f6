// The names of parameters outside of the layers (models/embedding_and_head.h), in models and in
// files. models/module_names.h has the names in layers.
#pragma once

#include <string_view>

namespace penstock {

// Names of parameters in a model.
constexpr const char *kEmbeddingsParameter = "embed_tokens", *kFinalNormModule = "norm",
                     *kHeadParameter = "lm_head", *kHeadBiasParameter = "head_bias",
                     *kClusterWeightParameter = "cluster_weight",
                     *kClusterBiasParameter = "cluster_bias";

// Names of tensors in files.
constexpr const char *kEmbeddingsTensor = "model.embed_tokens.weight",
                     *kFinalNormTensor = "model.norm.weight", *kHeadTensor = "lm_head.weight",
                     *kHeadBiasTensor = "lm_head.bias",
                     *kClusterWeightTensor = "model.cluster_weight",
                     *kClusterBiasTensor = "model.cluster_bias";

/// Whether the head alone reads the parameter with this full name. It is false for the embeddings,
/// which the lookup of tokens reads too.
bool only_head_reads(std::string_view parameter);

}  // namespace penstock
