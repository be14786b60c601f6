// The parameters of the models outside of their layers: embeddings, last norm and head. This file
// registers, draws and describes them; the models compute with them.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "penstock/experts/layer_tensors.h"
#include "penstock/layers/norm.h"
#include "penstock/layers/relative_attention.h"
#include "penstock/models/adaptive_softmax.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// The decoder's parameters outside of its layers. If several processes divide the layers, the
/// first layer's process has the embeddings, and the last layer's process has the last norm and the
/// head.
struct DecoderEmbeddingAndHead {
  at::Tensor embed_tokens;  // [V, d]
  std::shared_ptr<RmsNorm> norm;
  at::Tensor lm_head;  // [V, d], undefined when tied

  void register_first(torch::nn::Module& model, const ModelConfig& config);
  void register_last(torch::nn::Module& model, const ModelConfig& config);
  /// Adds the tensors of register_first() and register_last().
  static void describe(const ModelConfig& config, std::vector<ModelTensor>& out);
  /// Draws the registered matrices ~ N(0, init_std²).
  void initialize(const ModelConfig& config, const InitialDraws& draws) const;
};

/// Transformer-XL's parameters outside of its layers.
struct TransformerXlEmbeddingAndHead {
  at::Tensor embed_tokens;  // [V, d]
  PositionBiases biases;    // undefined if layers have their own
  AdaptiveSoftmax head;     // its matrix is embed_tokens

  void register_first(torch::nn::Module& model, const ModelConfig& config);
  void register_last(torch::nn::Module& model, const ModelConfig& config);
  static void describe(const ModelConfig& config, std::vector<ModelTensor>& out);
  /// Matrices, u and v ~ N(0, init_std²); biases stay 0.
  void initialize(const ModelConfig& config, const InitialDraws& draws) const;
};

}  // namespace penstock
