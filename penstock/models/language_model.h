// What the trainer, evaluation and benchmarks need of a model, whichever it is: tokens in, rows for
// the head out, a loss, and the memory that a segment hands to the next.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "penstock/layers/moe.h"
#include "penstock/layers/routing_tap.h"
#include "penstock/models/counts/flops.h"
#include "penstock/models/counts/recomputation.h"
#include "penstock/models/decoder_cache.h"
#include "penstock/models/model_config.h"
#include "penstock/models/model_place.h"
#include "penstock/routers/router.h"

namespace penstock {

/// Sees the residual stream after each layer, [B, T, d].
using HiddenTap = std::function<void(std::int64_t layer, const at::Tensor& hidden)>;

enum class PassDirection { forward, backward };

/// Told what comes next: the layer of that index, forward or, where gradients are wanted, backward.
/// An exception that it throws, of a class derived from std::exception, abandons the pass (autograd
/// passes on no other).
using LayerWatch = std::function<void(PassDirection direction, std::int64_t layer)>;

/// What rows carry from a segment to the next: per layer [B, M, d], M the same in all, without
/// gradient. Empty: nothing came before. A model without memory leaves it empty.
using ModelMemory = std::vector<at::Tensor>;

struct ModelInput {
  at::Tensor tokens;                 ///< [B, T] i64
  std::optional<at::Tensor> starts;  ///< [B, T] i64, first position each row may read
  ModelMemory memory = {};           ///< of the same B rows
  std::int64_t memory_length = -1;   ///< most positions to carry on; -1: the config's
  LayerWatch watch = {};             ///< may be null; kept until the backward pass
  /// Of a model that holds some layers only: which to pass through, all that it holds where empty,
  /// and, where these are not the first, what the layer before gave (ModelOutput::stream).
  IndexRange layers = {};
  at::Tensor stream = {};
};

struct ModelOutput {
  // Of the rows that this process holds (ModelPlace::rows), which are all unless ranks divide them:
  at::Tensor hidden;  ///< [B·T, d], what the head multiplies; undefined before the last layer
  at::Tensor stream;  ///< [B, T, d], for the layer that follows; undefined after the last one
  at::Tensor auxiliary_loss;  ///< scalar, summed over layers; undefined when there is none
  ModelMemory memory = {};    ///< for the segment that follows
};

class LanguageModel : public torch::nn::Module {
 public:
  explicit LanguageModel(const ModelConfig& config, ModelPlace place = {});

  /// Draws all weights, each by its name, as the config says.
  virtual void initialize(const InitialDraws& draws) = 0;

  /// `routing_tap` and `hidden_tap` may be null.
  virtual ModelOutput forward(const ModelInput& input, const RoutingContext& context,
                              const RoutingTap& routing_tap = {},
                              const HiddenTap& hidden_tap = {}) = 0;
  /// Mean cross-entropy in nats of rows of ModelOutput::hidden [R, d] and targets [R] i64. Where
  /// ranks divide the rows, hidden is of those held, and targets and the mean are of all.
  virtual at::Tensor loss(const at::Tensor& hidden, const at::Tensor& targets) const = 0;
  /// The cross-entropy of each row, [R], without gradient.
  virtual at::Tensor losses(const at::Tensor& hidden, const at::Tensor& targets) const = 0;
  /// Logits, or log-probabilities where the head is not one softmax, [.., V].
  virtual at::Tensor logits(const at::Tensor& hidden) const = 0;
  /// Whether extend() can be called: keys and values of a sequence can be kept in a cache.
  virtual bool caches() const { return false; }
  /// forward() for n tokens of each of R sequences, which follow what the cache holds of them and
  /// are then part of it; routers see these R·n tokens alone. Without gradient.
  /// @param tokens [R, n] i64;  @param rows  which of the cache's sequences, each at most once
  /// Throws Error where the cache has no room for them. REQUIRES: caches() (asserted).
  virtual ModelOutput extend(const at::Tensor& tokens, DecoderCache& cache,
                             std::span<const std::int64_t> rows, const RoutingContext& context,
                             const RoutingTap& routing_tap = {});
  /// The same for sequences that go on by numbers of tokens of their own, in one pass.
  /// @param tokens [T] i64, those of the parts one after another.  @return hidden [T, d]
  virtual ModelOutput extend_parts(const at::Tensor& tokens, DecoderCache& cache,
                                   std::span<const CachePart> parts, const RoutingContext& context,
                                   const RoutingTap& routing_tap = {});

  /// Of the whole model.
  const ModelConfig& config() const { return config_; }
  /// Which part of the model this is; the whole by default.
  const ModelPlace& place() const { return place_; }
  bool holds_first() const { return place_.part.holds(0); }
  bool holds_last() const { return place_.part.holds(config_.layers - 1); }
  /// The embeddings, where the first layer's holder has them as a parameter and the last layer's
  /// another one reads them; undefined otherwise. Who has the last layer is given them by tie(), a
  /// leaf with a gradient of its own, which no optimizer knows.
  virtual at::Tensor tied() const { return {}; }
  virtual void tie(const at::Tensor& embeddings);

  /// Those of its router, read once (ModelConfig::traits).
  const RouterTraits& traits() const { return traits_; }
  /// What its passes multiply, counted once.
  const ModelMultiplyAdds& multiply_adds() const { return multiply_adds_; }
  /// The layers with experts that it holds, in their order; empty for a dense model.
  const std::vector<MoeLayer*>& moe_layers() const { return moe_layers_; }
  /// What training passes compute again in the backward pass; nothing unless it is said. The bits
  /// are the same. REQUIRES: empty, or of all layers of the whole model.
  void recompute(Recomputation what);
  const Recomputation& recomputed() const { return recomputed_; }
  /// Balancers shared by the layers; empty for a dense model.
  const std::vector<std::shared_ptr<Balancer>>& balancers() const { return balancers_; }

 protected:
  /// Makes and registers the config's balancers; for constructors, where names have an order.
  void make_shared_balancers();
  /// Takes the layers with experts, once they are made, and joins what their scorers share.
  void take_moe_layers(std::vector<MoeLayer*> layers);
  /// Has `watch` told of that layer's backward pass when the gradient of its output is complete.
  static void watch_backward(const LayerWatch& watch, std::int64_t layer, const at::Tensor& output);
  /// What gradients go to from that layer beside its input: its parameters, and those that the
  /// routers of several layers share.
  std::vector<at::Tensor> parameters_read_by(const torch::nn::Module& layer) const;

 private:
  ModelConfig config_;
  ModelPlace place_;
  RouterTraits traits_;
  ModelMultiplyAdds multiply_adds_;
  std::vector<std::shared_ptr<Balancer>> balancers_;
  std::vector<MoeLayer*> moe_layers_;
  Recomputation recomputed_;
};

}  // namespace penstock
