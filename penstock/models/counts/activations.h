// An estimate of what training's backward pass keeps and holds, in closed form, for any choice of
// layers that are computed again. Weights, gradients and moments are counted in training_memory.h.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/models/counts/recomputation.h"
#include "penstock/models/model_config.h"
#include "penstock/ops/machine/precision.h"

namespace penstock {

/// Bytes of activations: what all layers keep of a micro-batch for its backward pass, and what is
/// there once besides, at the worst moment: what a layer computes again, the gradients within a
/// layer, the rows at both ends and the head's logits.
struct Activations {
  double layers = 0, besides = 0;
};

/// A micro-batch of one rank, and how it is computed.
struct TrainingPass {
  std::int64_t micro_batch = 1, sequence_length = 1;
  Recomputation recomputed = {};
  ops::ProductPrecision precision = ops::ProductPrecision::fp32;
  int tensors = 1;                ///< ranks that hold each layer's heads and neurons between them
  bool divided_rows = false;      ///< these hold the rows between products between them, too
  int expert_ranks = 1;           ///< ranks that hold the neurons of a layer's experts between them
  std::int64_t moment_bytes = 4;  ///< of each of AdamW's two, for training_memory()
};

/// Counts the activations of one pass under several choices.
///
/// In floats, for T = micro_batch·sequence_length tokens:
///   the most over layers i of T·[Σ_{j≤i} stored_j + rebuilt_i + within_i] + T·3d + chunk
///   kept  = 2d of residuals + 2d of what enters products + 2·(heads + kv)·head_dim +
///           feed-forward, for the backward pass
///   feed-forward = 3f, or E + a·(2f + 7) in an MoE layer: logits, what went into the activation,
///                  weight and three indices of each of a assignments per token, and 3 widths of
///                  a shared expert; 3f and an expert's weights per segment where a router blends
///   stored  = kept, less 2f·a where experts are recomputed, or 2d where the layer is
///   rebuilt = kept where the layer is recomputed (less 2f·a with its experts), or 0
///   within  = kept, in f32: the gradients that the backward pass holds while it is in the layer
///   chunk = logits that the head holds at once: T·V, but at most ops::kLogitsBytes (or one row)
/// of one pass; a method that makes two holds both. a is k, and max(k, E/2) where the active
/// experts vary: half the logits are positive at the start.
/// With products in bf16 what enters them is half as wide where nothing else reads it, and once
/// more beside where a router or attention does; 3f is 2.5f. Weights are packed for them, 2 bytes a
/// number, of which the most that is there at a time counts: the experts of a layer, where these
/// are recomputed their input matrices twice, or the head's matrix twice.
/// Not counted: the program itself, and what else operators need in passing. docs/performance.md
/// compares it with measured peaks.
class ActivationCount {
 public:
  /// `pass.recomputed` does not matter.  REQUIRES: config is resolved.
  ActivationCount(const ModelConfig& config, const TrainingPass& pass);

  Activations of(const Recomputation& recomputed) const;
  /// FLOPs that a pass over the micro-batch computes twice, with k experts for each token.
  double flops_again(const Recomputation& recomputed) const;

 private:
  struct Layer {  // of a token
    // Bytes; the latter of what goes into the experts' activation.
    double input = 0, kept = 0, within = 0, inner = 0;
    double flops = 0, flops_of_experts_again = 0;
  };
  double packed_bytes(const Recomputation& recomputed) const;

  std::vector<Layer> layers_;
  double tokens_ = 0, rows_ = 0, chunk_ = 0;                        // bytes of the latter
  double packed_head_ = 0, packed_experts_ = 0, packed_again_ = 0;  // bytes
};

/// Of `pass` as it is.
Activations activations(const ModelConfig& config, const TrainingPass& pass);

}  // namespace penstock
