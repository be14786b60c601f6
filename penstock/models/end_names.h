// The names of what the models have outside of their layers (models/model_ends.h), as parameters
// and in files. Those of layers are models/module_names.h's.
#pragma once

#include <string_view>

namespace penstock {

// In the model as modules.
constexpr const char *kEmbeddingsParameter = "embed_tokens", *kFinalNormModule = "norm",
                     *kHeadParameter = "lm_head", *kHeadBiasParameter = "head_bias",
                     *kClusterWeightParameter = "cluster_weight",
                     *kClusterBiasParameter = "cluster_bias";

// Of the tensors in files.
constexpr const char *kEmbeddingsTensor = "model.embed_tokens.weight",
                     *kFinalNormTensor = "model.norm.weight", *kHeadTensor = "lm_head.weight",
                     *kHeadBiasTensor = "lm_head.bias",
                     *kClusterWeightTensor = "model.cluster_weight",
                     *kClusterBiasTensor = "model.cluster_bias";

/// Whether the parameter of that full name is the head's and nothing else reads it, as tied
/// embeddings are read.
bool only_head_reads(std::string_view parameter);

}  // namespace penstock
