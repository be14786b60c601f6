// FLOPs of a model in closed form, without building it.
#pragma once

#include <cstdint>

#include "penstock/models/model_config.h"

namespace penstock {

/// Forward and backward FLOPs of one sequence by the published formula, attention unmasked:
///   12·s·L·d²·[(1 + kv/heads + s/d)·(heads·head_dim/d) + 1.5·(f/d)·k + 1.5·(shared/d) + V/(2·L·d)]
/// where k and the shared expert's width are means over layers; a dense layer has k = 1 and width
/// 0. This is only for comparison with the paper, and only for the decoder.
/// Source: Narayanan et al. 2021 as ReMoE's Table 1 uses it; there heads·head_dim = d and there is
/// no shared expert.
double published_flops_per_sequence(const ModelConfig& config, std::int64_t sequence_length);

/// Multiply-adds of a forward pass, grouped by the quantity they are proportional to. The
/// constructor lists the model's tensors and builds a router, so a model counts once.
struct ModelMultiplyAdds {
  /// REQUIRES: config is resolved. All functions in this file require this.
  ModelMultiplyAdds(const ModelConfig& config);  // NOLINT(google-explicit-constructor)

  // Multiply-adds per token, summed over layers:
  double queries = 0, keys_values = 0, outputs = 0;  ///< projections
  double dense = 0;                                  ///< feed-forward of layers without experts
  double shared = 0;                                 ///< shared experts and their gates
  /// Routers: a token's logits, or its share of a segment's logits if the router scores segment
  /// means. If the router merges experts, also a token's share of blending the experts' weights
  /// once per segment, E·(matrices of an expert).
  double routing = 0;
  double head = 0;
  double expert = 0;     ///< one expert for one token
  double pair = 0;       ///< attention for each position that a token may read, summed over layers
  double distances = 0;  ///< the projection of one distance, summed over layers
  /// All multiply-adds of a token except those of experts and of attention's pairs.
  double token() const { return queries + keys_values + outputs + dense + shared + routing + head; }
};

/// Work of a pass, in one layer, for the memory of Transformer-XL.
struct MemoryWork {
  double positions = 0;  ///< remembered positions whose keys and values are computed
  double distances = 0;  ///< distances that are projected
};

/// Passes that a training step makes over its tokens: one, or the number that the routing method
/// needs.
double forward_passes(const ModelConfig& config);
/// Rows of logits per token. A router that scores segments has fewer than one.
double rows_per_token(const ModelConfig& config);

/// Useful FLOPs of a training step. Linear layers (active experts only), the router, the head and
/// unmasked attention products (three with relative positions) count times 3. Projections of memory
/// and distances count times 2, because their inputs have no gradient. Recomputation, norms and the
/// optimizer do not count.
/// @param tokens          tokens in the step
/// @param attended_pairs  Σ over rows of the positions that each row may read (one layer)
/// @param assignments     (token, expert) pairs, summed over MoE layers
double useful_training_flops(const ModelMultiplyAdds& multiply_adds, double tokens,
                             double attended_pairs, double assignments,
                             const MemoryWork& memory = {});

/// Useful FLOPs of a forward pass over the same tokens.
double useful_forward_flops(const ModelMultiplyAdds& multiply_adds, double tokens,
                            double attended_pairs, double assignments,
                            const MemoryWork& memory = {});

/// Σ over rows of readable positions, for `sequences` causal sequences of that length.
double causal_pairs(std::int64_t sequences, std::int64_t length);

/// Useful training FLOPs of that many sequences with the nominal number of active experts and a
/// full memory. If the method makes two passes, both count. If the method learns from a forward
/// pass with all experts, that pass counts too.
double nominal_training_flops(const ModelConfig& config, std::int64_t sequences,
                              std::int64_t length);

/// Useful forward FLOPs of that many sequences in one batch. Each sequence has `memory` positions
/// before it (Transformer-XL; the decoder has none). Each token has `active` experts in every MoE
/// layer. The distances are projected once for all sequences. So, with memory, a token's share
/// depends on the number of sequences.
double nominal_forward_flops(const ModelConfig& config, std::int64_t sequences, std::int64_t length,
                             std::int64_t memory, double active);

}  // namespace penstock
