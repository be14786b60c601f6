// AdamW and the global norm: checks, implementations, dispatcher registration. No gradients.
#include "penstock/ops/optimizer.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <cmath>
#include <numeric>

#include "penstock/ops/check.h"
#include "penstock/ops/implementation.h"

namespace penstock::ops {

std::string describe(const std::vector<AdamWItem>& items) {
  return concat(items.size(), " tensors");
}
std::string describe(const AdamWOptions&) { return "options"; }

namespace {

using Step = void(const std::vector<AdamWItem>&, const AdamWOptions&);
using Sums = std::vector<double>(const std::vector<at::Tensor>&);

/// The step reads weight, gradient and moments, and writes weight and moments. By convention it has
/// no useful FLOPs.
Cost step_cost(const std::vector<AdamWItem>& items, const AdamWOptions&) {
  double bytes = 0;
  for (const auto& item : items) bytes += 3 * bytes_of(item.weight) + 4 * bytes_of(item.m);
  return {.bytes = bytes};
}

const Implementations<Step>& step_list() {
  static const Implementations<Step> list("adamw_step",
                                          {{"cpu", cpu::declines_adamw, cpu::adamw_step},
                                           {"reference", nullptr, reference::adamw_step}},
                                          step_cost);
  return list;
}

const Implementations<Sums>& sum_list() {
  static const Implementations<Sums> list("global_norm",
                                          {{"cpu", cpu::declines_square_sums, cpu::square_sums},
                                           {"reference", nullptr, reference::square_sums}});
  return list;
}

void step_kernel(at::TensorList weights, at::TensorList grads, at::TensorList m, at::TensorList v,
                 at::ArrayRef<double> decay, double lr, double beta1, double beta2, double eps,
                 double grad_scale, std::int64_t step) {
  const std::size_t n = weights.size();
  PENSTOCK_CHECK(grads.size() == n && m.size() == n && v.size() == n && decay.size() == n,
                 "[adamw_step] lists differ in length: ", n, " weights, ", grads.size(),
                 " gradients, ", m.size(), " and ", v.size(), " moments, ", decay.size(),
                 " decays");
  PENSTOCK_CHECK(step >= 1, "[adamw_step] steps count from 1, not ", step);
  std::vector<AdamWItem> items;
  items.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    PENSTOCK_CHECK(weights[i].defined() && grads[i].defined() && m[i].defined() && v[i].defined(),
                   "[adamw_step] tensor ", i, " is missing its weight, gradient or moments");
    PENSTOCK_CHECK(grads[i].sizes() == weights[i].sizes() && m[i].sizes() == weights[i].sizes() &&
                       v[i].sizes() == weights[i].sizes(),
                   "[adamw_step] tensor ", i, ": weight ", weights[i].sizes(), ", gradient ",
                   grads[i].sizes(), " and moments ", m[i].sizes(), ", ", v[i].sizes(), " differ");
    if (m[i].scalar_type() == at::kBFloat16 && v[i].scalar_type() == at::kBFloat16) {
      check_same_kind({weights[i], grads[i]}, "adamw_step");
      PENSTOCK_CHECK(m[i].device() == weights[i].device() && v[i].device() == weights[i].device(),
                     "[adamw_step] tensor ", i, ": weight on ", weights[i].device(),
                     ", moments on ", m[i].device(), " and ", v[i].device());
    } else {
      check_same_kind({weights[i], grads[i], m[i], v[i]}, "adamw_step");
    }
    items.push_back({weights[i], grads[i], m[i], v[i], decay[i]});
  }
  step_list().run(items, {.lr = lr,
                          .beta1 = beta1,
                          .beta2 = beta2,
                          .eps = eps,
                          .grad_scale = grad_scale,
                          .step = step});
}

double norm_kernel(at::TensorList tensors) {
  for (const auto& tensor : tensors) {
    PENSTOCK_CHECK(tensor.defined(), "[global_norm] a tensor is missing");
    check_same_kind({tensor}, "global_norm");
  }
  const auto sums = square_sums(std::vector<at::Tensor>(tensors.begin(), tensors.end()));
  return std::sqrt(std::accumulate(sums.begin(), sums.end(), 0.0));
}

}  // namespace

void adamw_step(const std::vector<at::Tensor>& weights, const std::vector<at::Tensor>& grads,
                const std::vector<at::Tensor>& m, const std::vector<at::Tensor>& v,
                const std::vector<double>& decay, const AdamWOptions& options) {
  step_kernel(weights, grads, m, v, decay, options.lr, options.beta1, options.beta2, options.eps,
              options.grad_scale, options.step);
}

double global_norm(const std::vector<at::Tensor>& tensors) { return norm_kernel(tensors); }

std::vector<double> square_sums(const std::vector<at::Tensor>& tensors) {
  return sum_list().run(tensors);
}

}  // namespace penstock::ops

TORCH_LIBRARY_IMPL(penstock, CompositeImplicitAutograd, m) {
  m.impl("adamw_step", penstock::ops::step_kernel);
  m.impl("global_norm", penstock::ops::norm_kernel);
}
