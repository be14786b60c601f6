// Numerical gradients for the operators' tests: autograd against central differences in f64.
// Not a benchmark of accuracy in f32; fast paths are compared with the f64 reference instead.
#pragma once

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace penstock::testing {

using TensorFunction = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

struct GradientReport {
  double error = 0;   ///< largest |autograd − numeric| / max(1, |numeric|)
  std::string where;  ///< "input 1, element 7: autograd 0.5, numeric 0.25"
};

/// Compares autograd's gradient of Σ f(inputs) ⊙ probe (a fixed random probe) with central
/// differences, for every element of every f64 input. Other inputs (indices) are passed on
/// unchanged.
/// REQUIRES: f is smooth within `step` of the inputs.  Cost: two forward passes per element.
inline GradientReport check_gradients(const TensorFunction& f,
                                      const std::vector<at::Tensor>& inputs, double step = 1e-5) {
  std::vector<at::Tensor> leaves;
  for (const auto& input : inputs) {
    auto leaf = input.detach().clone(at::MemoryFormat::Contiguous);
    if (leaf.scalar_type() == at::kDouble) leaf.set_requires_grad(true);
    leaves.push_back(leaf);
  }
  const auto y = f(leaves);
  const auto probe = torch::rand(y.sizes(), y.options().requires_grad(false)) + 0.5;
  (y * probe).sum().backward();

  const auto value = [&] {
    at::NoGradGuard no_grad;
    return (f(leaves) * probe).sum().item<double>();
  };
  GradientReport report;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].requires_grad()) continue;
    const auto grad =
        leaves[i].grad().defined() ? leaves[i].grad().contiguous() : torch::zeros_like(leaves[i]);
    double* data = leaves[i].data_ptr<double>();
    for (std::int64_t n = 0; n < leaves[i].numel(); ++n) {
      const double kept = data[n];
      data[n] = kept + step;
      const double above = value();
      data[n] = kept - step;
      const double below = value();
      data[n] = kept;
      const double numeric = (above - below) / (2 * step);
      const double autograd = grad.data_ptr<double>()[n];
      const double error = std::abs(autograd - numeric) / std::max(1.0, std::abs(numeric));
      if (!(error <= report.error)) {  // true for NaN as well
        report.error = error;
        report.where = "input " + std::to_string(i) + ", element " + std::to_string(n) +
                       ": autograd " + std::to_string(autograd) + ", numeric " +
                       std::to_string(numeric);
        if (std::isnan(error)) return report;
      }
    }
  }
  return report;
}

/// Largest |a − b| over max(1, largest |b|), computed in f64. It is 0 for empty tensors.
inline double relative_error(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  if (a.numel() == 0) return 0;
  const auto wide = b.detach().to(at::kDouble);
  return (a.detach().to(at::kDouble) - wide).abs().max().item<double>() /
         std::max(1.0, wide.abs().max().item<double>());
}

/// Largest |a − b| over the largest |b|, computed in f64. For results that are small, whose errors
/// relative_error() would not see. Where b is zero, the largest |a|.
inline double error_by_largest(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor wide = b.detach().to(at::kDouble);
  const double largest = wide.numel() > 0 ? wide.abs().max().item<double>() : 0;
  const double scale = largest > 0 ? 1 / largest : 1;
  return relative_error(a.detach().to(at::kDouble) * scale, wide * scale);
}

}  // namespace penstock::testing
