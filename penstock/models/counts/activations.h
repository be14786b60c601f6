// An estimate, in closed form, of the memory that training's backward pass needs. It covers any
// choice of layers that the backward pass computes again. training_memory.h counts weights,
// gradients and moments.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/models/counts/recomputation.h"
#include "penstock/models/model_config.h"
#include "penstock/ops/machine/precision.h"

namespace penstock {

/// Bytes of activations. `layers` counts the activations that all layers keep for a micro-batch's
/// backward pass. `besides` counts the additional memory at the worst moment: the numbers that a
/// layer computes again, the gradients within a layer, the rows at both ends and the head's logits.
struct Activations {
  double layers = 0, besides = 0;
};

/// A micro-batch of one rank, and the way the rank computes it.
struct TrainingPass {
  std::int64_t micro_batch = 1, sequence_length = 1;
  Recomputation recomputed = {};
  ops::ProductPrecision precision = ops::ProductPrecision::fp32;
  int tensors = 1;                ///< ranks that divide each layer's heads and neurons
  bool divided_rows = false;      ///< whether these ranks divide the rows between products, too
  int expert_ranks = 1;           ///< ranks that divide the neurons of a layer's experts
  std::int64_t moment_bytes = 4;  ///< bytes a number of AdamW's moments, for training_memory()
};

/// Counts the activations of one pass under several choices.
///
/// In floats, for T = micro_batch·sequence_length tokens:
///   the most over layers i of T·[Σ_{j≤i} stored_j + rebuilt_i + within_i] + T·3d + chunk
///   kept  = 2d for residuals + 2d for inputs of products + 2·(heads + kv)·head_dim +
///           feed-forward, all kept for the backward pass
///   feed-forward = 3f in a dense layer; E + a·(2f + 7) + 3·(width of the shared expert) in an MoE
///                  layer: E logits, and for each of a assignments per token 2f inputs of the
///                  activation, a weight and three indices; 3f and an expert's weights per segment
///                  if the router blends experts
///   stored  = 2d if the layer is recomputed; else kept, less 2f·a if its experts are recomputed
///   rebuilt = kept if the layer is recomputed (less 2f·a if its experts are, too); else 0
///   within  = kept, in f32: the gradients that the backward pass holds while it is in the layer
///   chunk = logits that the head holds at once: T·V, but at most ops::kLogitsBytes (or one row)
/// All this is for one pass. A method that makes two passes holds both. a is k, or max(k, E/2) if
/// the number of active experts varies, because half the logits are positive at the start.
///
/// With products in bf16, the input of a product takes half the memory if only the product reads
/// it. If a router or attention reads the input too, the bf16 copy takes additional memory. 3f
/// becomes 2.5f. Products pack their weights, with 2 bytes a number. The larger of two packed sizes
/// counts: the experts of one layer (their input matrices twice if experts are recomputed), or the
/// head's matrix twice.
///
/// The count leaves out the program itself and temporary memory of other operators.
/// docs/performance.md compares the count with measured peaks.
class ActivationCount {
 public:
  /// The count ignores `pass.recomputed`.
  /// REQUIRES: config is resolved.
  ActivationCount(const ModelConfig& config, const TrainingPass& pass);

  Activations of(const Recomputation& recomputed) const;
  /// FLOPs that a pass over the micro-batch computes twice, with k experts for each token.
  double flops_again(const Recomputation& recomputed) const;

 private:
  struct Layer {  // the activations of one token in one layer
    // Bytes. `inner` is the input of the experts' activation.
    double input = 0, kept = 0, within = 0, inner = 0;
    double flops = 0, flops_of_experts_again = 0;
  };
  double packed_bytes(const Recomputation& recomputed) const;

  std::vector<Layer> layers_;
  double tokens_ = 0, rows_ = 0, chunk_ = 0;  // tokens; bytes per token; bytes
  double packed_head_ = 0, packed_experts_ = 0, packed_again_ = 0;  // bytes
};

/// The activations of `pass` with its own `recomputed`.
Activations activations(const ModelConfig& config, const TrainingPass& pass);

}  // namespace penstock
