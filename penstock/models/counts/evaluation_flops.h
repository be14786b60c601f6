// FLOPs of linear layers in a forward pass, in closed form, counted as in HyperRouter's Table A3.
#pragma once

#include <cstdint>

#include "penstock/models/model_config.h"

namespace penstock {

/// One forward pass over rows that all have a full memory.
struct EvaluationWork {
  std::int64_t sequences = 1, length = 1;  ///< B, T
  std::int64_t memory = 0;                 ///< M, positions before the segment
  double active_experts = 0;               ///< k, after granularity is applied
  /// Whether queries of the memory's positions are computed too, and dropped. The authors'
  /// Transformer-XL does so, because one layer computes its q, k and v. Penstock computes only the
  /// segment's queries.
  bool queries_of_memory = false;
};

/// FLOPs of every linear layer except the head, at 2 FLOPs a multiply-add:
///   2·{L·d·q·[BT + 2B(T+M) + (T+M) + BT] + BT·[(L − L_moe)·m·d·f + L_moe·(k·m·d·f_e + s) +
///   router]}
/// The terms are queries, keys and values, distances, output, dense feed-forwards and expert
/// feed-forwards. m = matrices of a feed-forward, q = heads·head_dim, s = multiply-adds of the
/// shared expert. With queries_of_memory the first BT is B(T+M). A decoder has no distances and no
/// memory, and has its own kv_heads. Attention products, biases, norms and softmax do not count.
double linear_layer_flops(const ModelConfig& config, const EvaluationWork& work);

}  // namespace penstock
