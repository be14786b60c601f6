// A softmax over a vocabulary with a bias. It is a single softmax, or it has clusters of ever rarer
// words. The rows of the matrix are the embeddings. There are no projections between clusters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace penstock {

/// Without cutoffs: p = softmax(W h + b). With cutoffs c_1 < ... < c_n < V, ids are sorted by
/// frequency. The first softmax is over the words below c_1 and one entry per cluster. A word of
/// cluster i has p = p_first(cluster i) · softmax over the words [c_i, c_{i+1}).
/// Source: Grave et al., arXiv:1609.04309, in Transformer-XL's form with div_val 1.
struct AdaptiveSoftmax {
  std::vector<std::int64_t> cutoffs;
  at::Tensor bias;                          // [V]
  at::Tensor cluster_weight, cluster_bias;  // [n, d], [n]; undefined without cutoffs

  /// Mean cross-entropy in nats.
  /// @param hidden [R, d];  @param weight [V, d];  @param targets [R] i64
  /// Gradient: hidden, weight and the members.
  at::Tensor loss(const at::Tensor& hidden, const at::Tensor& weight,
                  const at::Tensor& targets) const;
  /// The cross-entropy of each row, [R], without gradient.
  at::Tensor losses(const at::Tensor& hidden, const at::Tensor& weight,
                    const at::Tensor& targets) const;
  /// log p [.., V]; the logits if there are no cutoffs.
  at::Tensor log_probabilities(const at::Tensor& hidden, const at::Tensor& weight) const;
};

}  // namespace penstock
