// Measures how sure a router is: the entropy of its distribution over the experts, token by token.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace penstock::analysis {

/// Entropy of each token's distribution over all E experts, in nats, in [0, ln E].
///   H_t = −Σ_e p_te ln p_te,  p_t = softmax(z_t)
/// The softmax is over all logits, for every selector.
/// @param logits [R, E] f32|f64.  @return [R] f64 on the CPU. Without gradient.
/// Source: HyperRouter, arXiv:2312.07035, Tables 4 and A5 (no code for them is published).
at::Tensor router_entropies(const at::Tensor& logits);

/// Mean and standard deviation (divisor n, not n − 1) of the added values, in f64.
class Moments {
 public:
  /// Adds every element.
  void add(const at::Tensor& values);
  std::int64_t count() const { return count_; }
  double mean() const { return mean_; }
  double sd() const;

 private:
  std::int64_t count_ = 0;
  double mean_ = 0, squares_ = 0;  // Σ (x − mean)²
};

}  // namespace penstock::analysis
