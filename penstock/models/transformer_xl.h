// Transformer-XL: a norm after each sub-layer, relative positions, a memory of earlier segments,
// and one matrix for embedding and softmax. Each layer is dense or MoE, by config.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "penstock/models/embedding_and_head.h"
#include "penstock/models/language_model.h"
#include "penstock/models/transformer_xl_layer.h"

namespace penstock {

/// A LanguageModel with memory. All layers share u and v. Attention reads every cached position.
/// There is no norm after the last layer. The router reads the output of the attention's norm.
/// Source: Transformer-XL (arXiv:1901.02860) as SMoE-Dropout and HyperRouter use it.
class TransformerXl : public LanguageModel {
 public:
  explicit TransformerXl(const ModelConfig& config, const ModelPlace& place = {});
  /// Matrices, embedding, u and v ~ N(0, init_std²), gains ~ N(1, init_std²); biases stay 0.
  void initialize(const InitialDraws& draws) override;

  /// The memory of the output holds the layers' inputs at the last positions of the old memory and
  /// the segment together.
  ModelOutput forward(const ModelInput& input, const RoutingContext& context,
                      const RoutingTap& routing_tap = {},
                      const HiddenTap& hidden_tap = {}) override;
  at::Tensor loss(const at::Tensor& hidden, const at::Tensor& targets) const override;
  at::Tensor losses(const at::Tensor& hidden, const at::Tensor& targets) const override;
  at::Tensor logits(const at::Tensor& hidden) const override;

 private:
  std::int64_t memory_length(const ModelInput& input) const;
  /// Runs one layer. The backward pass computes it again if recomputation asks for that.
  at::Tensor through(std::int64_t index, const at::Tensor& x, const at::Tensor& memory,
                     const at::Tensor& distances, const DropoutSeeds& seeds,
                     const RoutingContext& context, std::optional<RoutingResult>& routing);

  TransformerXlEmbeddingAndHead embedding_and_head_;
  std::vector<std::shared_ptr<TransformerXlLayer>> layers_;
};

}  // namespace penstock
