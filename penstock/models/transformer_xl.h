// Transformer-XL: norms after the sub-layers, relative positions, a memory of earlier segments,
// embedding and softmax tied; dense or MoE per layer, by config.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "penstock/models/language_model.h"
#include "penstock/models/model_ends.h"
#include "penstock/models/transformer_xl_layer.h"

namespace penstock {

/// Source: Transformer-XL (arXiv:1901.02860) as SMoE-Dropout and HyperRouter use it: u and v shared
/// by all layers, every cached position readable, no norm after the last layer. The router reads
/// what the attention's norm gave.
class TransformerXl : public LanguageModel {
 public:
  explicit TransformerXl(const ModelConfig& config, const ModelPlace& place = {});
  /// Matrices, embedding, u and v ~ N(0, init_std²), gains ~ N(1, init_std²); biases stay 0.
  void initialize(const InitialDraws& draws) override;

  /// The memory handed on holds the layers' inputs at the last positions of memory and segment.
  ModelOutput forward(const ModelInput& input, const RoutingContext& context,
                      const RoutingTap& routing_tap = {},
                      const HiddenTap& hidden_tap = {}) override;
  at::Tensor loss(const at::Tensor& hidden, const at::Tensor& targets) const override;
  at::Tensor losses(const at::Tensor& hidden, const at::Tensor& targets) const override;
  at::Tensor logits(const at::Tensor& hidden) const override;

 private:
  std::int64_t memory_length(const ModelInput& input) const;
  /// Through one layer, computed again in the backward pass where that was asked for.
  at::Tensor through(std::int64_t index, const at::Tensor& x, const at::Tensor& memory,
                     const at::Tensor& distances, const DropoutSeeds& seeds,
                     const RoutingContext& context, std::optional<RoutingResult>& routing);

  TransformerXlEnds ends_;
  std::vector<std::shared_ptr<TransformerXlLayer>> layers_;
};

}  // namespace penstock
