// FLOPs of a model in closed form, without building it.
#pragma once

#include <cstdint>

#include "penstock/models/model_config.h"

namespace penstock {

/// Forward and backward FLOPs of one sequence by the published formula, attention unmasked:
///   12·s·L·d²·[(1 + kv/heads + s/d)·(heads·head_dim/d) + 1.5·(f/d)·k + 1.5·(shared/d) + V/(2·L·d)]
/// where k and the shared expert's width are means over layers (k = 1 and 0 in dense ones).
/// Source: Narayanan et al. 2021 as ReMoE's Table 1 uses it; there heads·head_dim = d and nothing
/// is shared. Only for comparison with the paper, and only of the decoder.
double published_flops_per_sequence(const ModelConfig& config, std::int64_t sequence_length);

/// Multiply-adds of a forward pass, by what they grow with. Counting them lists a model's tensors
/// and builds a router, so a model does it once.
struct ModelMultiplyAdds {
  /// REQUIRES: config is resolved, as all functions here do.
  ModelMultiplyAdds(const ModelConfig& config);  // NOLINT(google-explicit-constructor)

  // Of a token, summed over layers:
  double queries = 0, keys_values = 0, outputs = 0;  ///< projections
  double dense = 0;                                  ///< feed-forward of layers without experts
  double shared = 0;                                 ///< shared experts and their gates
  /// Routers: a token's logits, a share of a segment's where the router scores segment means, and
  /// of blending the experts' weights once per segment, E·(matrices of an expert), where it merges.
  double routing = 0;
  double head = 0;
  double expert = 0;     ///< of one expert for one token
  double pair = 0;       ///< attention, for each position that a token may read, over layers
  double distances = 0;  ///< of a distance, projected in all layers
  /// All that a token takes but experts and attention's pairs.
  double token() const { return queries + keys_values + outputs + dense + shared + routing + head; }
};

/// What a pass does for the memory of Transformer-XL, in one layer.
struct MemoryWork {
  double positions = 0;  ///< remembered positions whose keys and values are computed
  double distances = 0;  ///< distances that are projected
};

/// Passes that a training step makes over its tokens: one, or as many as the routing method asks.
double forward_passes(const ModelConfig& config);
/// Rows of logits per token; of a router that scores segments, fewer than one.
double rows_per_token(const ModelConfig& config);

/// Useful FLOPs of a training step: linear layers (active experts only), the router, the head and
/// unmasked attention products (three with relative positions), times 3; times 2 for projections of
/// memory and distances, whose inputs have no gradient. Nothing for recomputation, norms or the
/// optimizer.
/// @param tokens          tokens in the step
/// @param attended_pairs  Σ over rows of the positions each may read (one layer)
/// @param assignments     (token, expert) pairs, summed over MoE layers
double useful_training_flops(const ModelMultiplyAdds& multiply_adds, double tokens,
                             double attended_pairs, double assignments,
                             const MemoryWork& memory = {});

/// Useful FLOPs of a forward pass over the same.
double useful_forward_flops(const ModelMultiplyAdds& multiply_adds, double tokens,
                            double attended_pairs, double assignments,
                            const MemoryWork& memory = {});

/// Σ over rows of readable positions for `sequences` causal sequences of that length.
double causal_pairs(std::int64_t sequences, std::int64_t length);

/// Useful training FLOPs of that many sequences at the nominal number of active experts, with the
/// memory filled; of both passes where the method makes two, and of a forward pass with all experts
/// where it learns from one.
double nominal_training_flops(const ModelConfig& config, std::int64_t sequences,
                              std::int64_t length);

/// Useful forward FLOPs of that many sequences side by side, each with `memory` positions before it
/// (Transformer-XL; the decoder has none) and `active` experts per token in every MoE layer. The
/// distances are projected once for all sequences, which with memory makes a token's share depend
/// on how many there are.
double nominal_forward_flops(const ModelConfig& config, std::int64_t sequences, std::int64_t length,
                             std::int64_t memory, double active);

}  // namespace penstock
