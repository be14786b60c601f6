// Attention with relative positions: checks, implementations, gradient, dispatcher registration.
// The backward pass keeps the operands, y and one number per row.
#include "penstock/ops/relative_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "penstock/ops/check.h"
#include "penstock/ops/implementation.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/second_derivative.h"

namespace penstock::ops {

std::string describe(const RelativeProblem& problem) {
  return concat(describe(problem.q), ", K ", problem.keys(), ", H ", problem.heads(),
                problem.precision == ProductPrecision::bf16 ? ", bf16" : "");
}

double bytes_of(const RelativeProblem& p) {
  return bytes_of(p.q) + bytes_of(p.kv) + bytes_of(p.r) + bytes_of(p.u) + bytes_of(p.v);
}

namespace {

using at::Tensor;
using Forward = RelativeResult(const RelativeProblem&);
using Backward = RelativeGradient(const Tensor&, const RelativeProblem&, const Tensor&,
                                  const Tensor&);
using Signature = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                         double);

/// `products` products of 2·hd FLOPs for each pair of positions that may attend, in each head.
Cost attention_cost(const RelativeProblem& p, int products) {
  const auto rows = static_cast<double>(p.length());
  const double pairs = static_cast<double>(p.batch()) *
                       (rows * static_cast<double>(p.memory()) + rows * (rows + 1) / 2);
  return {.flops = 2.0 * products * pairs * static_cast<double>(p.heads() * p.head_dim())};
}

const Implementations<Forward>& forward_list() {
  static const Implementations<Forward> list(
      "relative_attention",
      {{"bf16", bf16::declines_relative_attention, bf16::relative_attention},
       {"cpu",
        [](const RelativeProblem& p) {
          return cpu::declines({p.q, p.kv}, p.precision);
        },
        cpu::relative_attention},
       {"reference", nullptr, reference::relative_attention}},
      [](const RelativeProblem& problem) { return attention_cost(problem, 3); });
  return list;
}

const Implementations<Backward>& backward_list() {
  static const Implementations<Backward> list(
      "relative_attention.backward",
      {{"bf16",
        [](const Tensor&, const RelativeProblem& p, const Tensor&, const Tensor&) {
          return bf16::declines_relative_attention(p);
        },
        bf16::relative_attention_backward},
       {"cpu",
        [](const Tensor& grad, const RelativeProblem& p, const Tensor&, const Tensor&) {
          return cpu::declines({grad, p.q, p.kv}, p.precision);
        },
        cpu::relative_attention_backward},
       {"reference", nullptr, reference::relative_attention_backward}},
      [](const Tensor&, const RelativeProblem& problem, const Tensor&, const Tensor&) {
        return attention_cost(problem, 6);
      });
  return list;
}

/// Checks the arguments and takes the precision of this thread's products, which applies only to
/// f32.
RelativeProblem checked(const Tensor& q, const Tensor& kv, const Tensor& r, const Tensor& u,
                        const Tensor& v, double scale) {
  PENSTOCK_CHECK(u.dim() == 2 && v.sizes() == u.sizes() && u.numel() > 0, "[relative_attention] u ",
                 u.sizes(), " and v ", v.sizes(), " must both be [H, hd]");
  const std::int64_t width = u.numel();
  PENSTOCK_CHECK(q.dim() == 3 && q.size(2) == width && kv.dim() == 3 && kv.size(0) == q.size(0) &&
                     kv.size(2) == 2 * width && kv.size(1) >= q.size(1),
                 "[relative_attention] q ", q.sizes(), " and kv ", kv.sizes(),
                 " must be [B, T, H·hd] and [B, K, 2·H·hd] with K of T or more, for u ", u.sizes());
  PENSTOCK_CHECK(r.dim() == 2 && r.size(0) == kv.size(1) && r.size(1) == width,
                 "[relative_attention] r ", r.sizes(), " must be [K, H·hd] for kv ", kv.sizes());
  check_same_kind({q, kv, r, u, v}, "relative_attention");
  return {
      .q = q, .kv = kv, .r = r, .u = u, .v = v, .scale = scale, .precision = product_precision(q)};
}

Tensor forward_kernel(const Tensor& q, const Tensor& kv, const Tensor& r, const Tensor& u,
                      const Tensor& v, double scale) {
  return std::get<0>(forward_list().run(checked(q, kv, r, u, v, scale)));
}

class RelativeFunction : public torch::autograd::Function<RelativeFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& q,
                        const Tensor& kv, const Tensor& r, const Tensor& u, const Tensor& v,
                        double scale) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const RelativeProblem problem = checked(q, kv, r, u, v, scale);
    const auto [y, logsumexp] = forward_list().run(problem);
    context->save_for_backward({q, kv, r, u, v, y, logsumexp});
    context->saved_data["scale"] = scale;
    context->saved_data["precision"] = static_cast<std::int64_t>(problem.precision);
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const RelativeProblem problem{
        .q = saved[0],
        .kv = saved[1],
        .r = saved[2],
        .u = saved[3],
        .v = saved[4],
        .scale = context->saved_data["scale"].toDouble(),
        .precision = static_cast<ProductPrecision>(context->saved_data["precision"].toInt())};
    auto [q, kv, r, u, v] = backward_list().run(grads[0].contiguous(), problem, saved[5], saved[6]);
    return {q, kv, r, u, v, Tensor()};
  }
};

Tensor autograd_kernel(const Tensor& q, const Tensor& kv, const Tensor& r, const Tensor& u,
                       const Tensor& v, double scale) {
  if (needs_gradient(q, kv, r, u, v))
    return recorded<RelativeFunction>("relative_attention", q, kv, r, u, v, scale);
  const at::AutoDispatchBelowADInplaceOrView below;
  return forward_kernel(q, kv, r, u, v, scale);
}

}  // namespace

Tensor relative_attention(const Tensor& q, const Tensor& kv, const Tensor& r, const Tensor& u,
                          const Tensor& v, double scale) {
  static const auto handle = dispatcher_handle<Signature>("relative_attention");
  return handle.call(q, kv, r, u, v, scale);
}

}  // namespace penstock::ops

TORCH_LIBRARY_IMPL(penstock, CPU, m) {
  m.impl("relative_attention", penstock::ops::forward_kernel);
}
TORCH_LIBRARY_IMPL(penstock, CUDA, m) {
  m.impl("relative_attention", penstock::ops::forward_kernel);
}
TORCH_LIBRARY_IMPL(penstock, Autograd, m) {
  m.impl("relative_attention", penstock::ops::autograd_kernel);
}
