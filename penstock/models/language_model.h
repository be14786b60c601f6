// The interface of every model for training, evaluation and benchmarks: tokens in, rows for the
// head out, a loss, and the memory that a segment passes to the next.
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
#include "penstock/routers/parts.h"

namespace penstock {

/// A function that gets the residual stream after each layer, [B, T, d].
using HiddenTap = std::function<void(std::int64_t layer, const at::Tensor& hidden)>;

enum class PassDirection { forward, backward };

/// A function that the model calls before each layer, forward and, with gradients, backward. An
/// exception from it abandons the pass. The exception's class must derive from std::exception,
/// because autograd passes on no others.
using LayerWatch = std::function<void(PassDirection direction, std::int64_t layer)>;

/// The memory that rows carry from a segment to the next. Each layer has a tensor [B, M, d] without
/// gradient; M is the same for all layers. Empty before the first segment, and always for a model
/// without memory.
using ModelMemory = std::vector<at::Tensor>;

struct ModelInput {
  at::Tensor tokens;                 ///< [B, T] i64
  std::optional<at::Tensor> starts;  ///< [B, T] i64, first position each row may read
  ModelMemory memory = {};           ///< of the same B rows, from the segment before
  std::int64_t memory_length = -1;   ///< most positions in the next memory; -1: the config's number
  LayerWatch watch = {};             ///< may be null; kept until the backward pass
  /// For a model that holds some of the layers: the layers to run (empty: all that it holds) and,
  /// if they are not the first, the output of the layer before (ModelOutput::stream).
  IndexRange layers = {};
  at::Tensor stream = {};
};

struct ModelOutput {
  // For the rows that this process holds (ModelPlace::rows). It holds all rows unless ranks divide
  // them.
  at::Tensor hidden;  ///< [B·T, d], the head's input; undefined before the last layer
  at::Tensor stream;  ///< [B, T, d], for the layer that follows; undefined after the last one
  at::Tensor auxiliary_loss;  ///< scalar, summed over layers; undefined when there is none
  ModelMemory memory = {};    ///< for the segment that follows
};

class LanguageModel : public torch::nn::Module {
 public:
  explicit LanguageModel(const ModelConfig& config, ModelPlace place = {});

  /// Draws all weights by seed and name, as the config says.
  virtual void initialize(const InitialDraws& draws) = 0;

  /// `routing_tap` and `hidden_tap` may be null.
  virtual ModelOutput forward(const ModelInput& input, const RoutingContext& context,
                              const RoutingTap& routing_tap = {},
                              const HiddenTap& hidden_tap = {}) = 0;
  /// Mean cross-entropy in nats. If ranks divide the rows, `hidden` has only this rank's rows, but
  /// `targets` and the mean cover all rows.
  /// @param hidden [R, d], rows of ModelOutput::hidden;  @param targets [R] i64
  virtual at::Tensor loss(const at::Tensor& hidden, const at::Tensor& targets) const = 0;
  /// The cross-entropy of each row, [R], without gradient.
  virtual at::Tensor losses(const at::Tensor& hidden, const at::Tensor& targets) const = 0;
  /// The logits [.., V]. If the head is not a single softmax, these are log-probabilities.
  virtual at::Tensor logits(const at::Tensor& hidden) const = 0;
  /// Whether the model has extend(): a cache can keep the keys and values of its sequences.
  virtual bool caches() const { return false; }
  /// forward() for the next n tokens of each of R sequences in the cache. It adds them to the
  /// cache. Routers see these R·n tokens alone. Without gradient.
  /// @param tokens [R, n] i64;  @param rows  which of the cache's sequences, each at most once
  /// Throws Error if the cache has no space for them. REQUIRES: caches() (asserted).
  virtual ModelOutput extend(const at::Tensor& tokens, DecoderCache& cache,
                             std::span<const std::int64_t> rows, const RoutingContext& context,
                             const RoutingTap& routing_tap = {});
  /// The same in one pass for sequences that each get their own number of tokens.
  /// @param tokens [T] i64, the tokens of the parts one after another.  @return hidden [T, d]
  virtual ModelOutput extend_parts(const at::Tensor& tokens, DecoderCache& cache,
                                   std::span<const CachePart> parts, const RoutingContext& context,
                                   const RoutingTap& routing_tap = {});

  /// The config of the whole model.
  const ModelConfig& config() const { return config_; }
  /// The part of the model that this object is; the whole by default.
  const ModelPlace& place() const { return place_; }
  bool holds_first() const { return place_.part.holds(0); }
  bool holds_last() const { return place_.part.holds(config_.layers - 1); }
  /// The tied embeddings, if one process holds the first layer and another the last; undefined
  /// otherwise. The first layer's process has them as a parameter. The last layer's process gets
  /// them by tie(), as a leaf with its own gradient that no optimizer updates.
  virtual at::Tensor tied() const { return {}; }
  virtual void tie(const at::Tensor& embeddings);

  /// The traits of the model's router, read once (ModelConfig::traits).
  const RouterTraits& traits() const { return traits_; }
  /// The multiply-adds of the model's passes, counted once.
  const ModelMultiplyAdds& multiply_adds() const { return multiply_adds_; }
  /// The MoE layers that this process holds, in their order; empty for a dense model.
  const std::vector<MoeLayer*>& moe_layers() const { return moe_layers_; }
  /// The layers that training passes compute again in the backward pass; none by default. The
  /// results have the same bits. REQUIRES: empty, or an entry for each layer of the whole model.
  void recompute(Recomputation what);
  const Recomputation& recomputed() const { return recomputed_; }
  /// Balancers shared by the layers; empty for a dense model.
  const std::vector<std::shared_ptr<Balancer>>& balancers() const { return balancers_; }

 protected:
  /// Makes and registers the config's balancers. Constructors call it at the balancers' position in
  /// the order of registered names.
  void make_shared_balancers();
  /// Takes the finished MoE layers and lets their scorers share parameters.
  void take_moe_layers(std::vector<MoeLayer*> layers);
  /// Calls `watch` for the layer's backward pass when the gradient of the layer's output is
  /// complete.
  static void watch_backward(const LayerWatch& watch, std::int64_t layer, const at::Tensor& output);
  /// The tensors that get gradients from the layer besides its input: its parameters, and
  /// parameters that routers of several layers share.
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
