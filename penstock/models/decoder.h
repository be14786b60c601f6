// The decoder: Llama- and Qwen2-like models, dense or MoE per layer, by config. The only other
// model is Transformer-XL. The decoder does not choose tokens; infer does.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "penstock/models/decoder_layer.h"
#include "penstock/models/embedding_and_head.h"
#include "penstock/models/language_model.h"

namespace penstock {

/// A LanguageModel without memory: each row is independent. A decoder that holds some of the layers
/// has the embedding if it holds the first layer. It has the last norm and the head if it holds the
/// last layer.
class Decoder : public LanguageModel, public ops::ReadsStored {
 public:
  explicit Decoder(const ModelConfig& config, const ModelPlace& place = {});
  void initialize(const InitialDraws& draws) override;

  /// The hidden rows of the output have gone through the last norm.
  ModelOutput forward(const ModelInput& input, const RoutingContext& context,
                      const RoutingTap& routing_tap = {},
                      const HiddenTap& hidden_tap = {}) override;
  bool caches() const override { return true; }
  ModelOutput extend(const at::Tensor& tokens, DecoderCache& cache,
                     std::span<const std::int64_t> rows, const RoutingContext& context,
                     const RoutingTap& routing_tap = {}) override;
  ModelOutput extend_parts(const at::Tensor& tokens, DecoderCache& cache,
                           std::span<const CachePart> parts, const RoutingContext& context,
                           const RoutingTap& routing_tap = {}) override;
  at::Tensor loss(const at::Tensor& hidden, const at::Tensor& targets) const override;
  at::Tensor losses(const at::Tensor& hidden, const at::Tensor& targets) const override;

  /// The output head's matrix [V, d]; this is the embeddings if they are tied. Losses read it
  /// directly (ops::linear_cross_entropy) and never store the logits.
  const at::Tensor& head() const {
    return config().tie_embeddings ? embedding_and_head_.embed_tokens : embedding_and_head_.lm_head;
  }
  /// hidden · headᵀ, [.., V].  @param hidden [.., d], rows of ModelOutput::hidden
  at::Tensor logits(const at::Tensor& hidden) const override;
  bool read_from(const std::string& parameter, const ops::StoredMatrix& matrix) override;
  at::Tensor tied() const override;
  void tie(const at::Tensor& embeddings) override;

  /// REQUIRES: this process holds the layer.
  DecoderLayer& layer(std::int64_t index) { return *layers_[index]; }

 private:
  /// Runs the layers. forward() and run_cached() share it.
  ModelOutput run(const ModelInput& input, const RoutingContext& context, const Attend& attend,
                  const RoutingTap& routing_tap, const HiddenTap& hidden_tap);
  /// run() with the cached keys and values of the sequences.
  ModelOutput run_cached(const at::Tensor& tokens, const DecoderCache& cache,
                         std::span<const CachedRows> where, const RoutingContext& context,
                         const RoutingTap& routing_tap);
  at::Tensor embedded(const at::Tensor& tokens) const;
  /// Runs one layer. The backward pass computes it again if recomputation asks for that.
  Residual through(std::int64_t index, Residual x, const Attend& attend,
                   const RoutingContext& context, std::optional<RoutingResult>& routing);
  /// Whether the pass includes the layer.
  bool passes(const ModelInput& input, std::int64_t layer) const;

  const ops::StoredMatrix& stored_head() const {
    return config().tie_embeddings ? stored_embeddings_ : stored_head_;
  }

  DecoderEmbeddingAndHead embedding_and_head_;
  // The matrices in the file that replace the parameters, or empty.
  ops::StoredMatrix stored_embeddings_, stored_head_;
  std::vector<std::shared_ptr<DecoderLayer>> layers_;  // [L], null for layers of other processes
};

}  // namespace penstock
