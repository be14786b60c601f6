// FLOPs of linear layers in a forward pass, in closed form: what HyperRouter's Table A3 counts.
#pragma once

#include <cstdint>

#include "penstock/models/model_config.h"

namespace penstock {

/// One forward pass over rows that all have a full memory.
struct EvaluationWork {
  std::int64_t sequences = 1, length = 1;  ///< B, T
  std::int64_t memory = 0;                 ///< M, positions before the segment
  double active_experts = 0;               ///< k, granularity applied
  /// Queries of the memory's positions are computed too and dropped, as the authors' Transformer-XL
  /// does, whose q, k and v are one layer. Penstock computes those of the segment alone.
  bool queries_of_memory = false;
};

/// 2 FLOPs a multiply-add of every linear layer but the head:
///   2·{L·d·q·[BT + 2B(T+M) + (T+M) + BT] + BT·[(L − L_moe)·m·d·f + L_moe·(k·m·d·f_e + s) +
///   router]}
/// for queries, keys and values, distances, output, dense and expert feed-forwards of m matrices;
/// q = heads·head_dim, s = the shared expert's; with queries_of_memory the first BT is B(T+M). A
/// decoder has no distances, no memory, and kv_heads of its own. No attention products, biases,
/// norms or softmax.
double linear_layer_flops(const ModelConfig& config, const EvaluationWork& work);

}  // namespace penstock
