#include "penstock/analysis/entropy.h"

#include <torch/types.h>

#include <cmath>

namespace penstock::analysis {

at::Tensor router_entropies(const at::Tensor& logits) {
  const at::Tensor p = logits.detach().to(at::kCPU, at::kDouble).softmax(-1);  // [R, E]
  return -at::xlogy(p, p).sum(-1);                                             // 0 ln 0 = 0
}

void Moments::add(const at::Tensor& values) {
  const std::int64_t count = values.numel();
  if (count == 0) return;
  const at::Tensor v = values.detach().to(at::kCPU, at::kDouble).reshape({-1});
  const auto n = static_cast<double>(count), before = static_cast<double>(count_);
  const double mean = v.mean().item<double>(), squares = (v - mean).square().sum().item<double>();
  const double apart = mean - mean_;
  squares_ += squares + apart * apart * before * n / (before + n);  // Chan, Golub, LeVeque 1979
  mean_ += apart * n / (before + n);
  count_ += count;
}

double Moments::sd() const {
  return count_ > 0 ? std::sqrt(squares_ / static_cast<double>(count_)) : 0;
}

}  // namespace penstock::analysis
