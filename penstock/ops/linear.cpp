// The linear operator: checks, implementations, gradient, dispatcher registration.
#include "penstock/ops/linear.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "penstock/ops/implementation.h"
#include "penstock/ops/machine/precision.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/product_tap.h"
#include "penstock/ops/second_derivative.h"

namespace penstock::ops {

std::string describe(const LinearGradients& wanted) {
  return concat("d", wanted.x ? "x" : "", wanted.w ? "w" : "", wanted.b ? "b" : "");
}

namespace {

using Signature = at::Tensor(const at::Tensor&, const at::Tensor&,
                             const c10::optional<at::Tensor>&);

/// 2·R·in·out FLOPs per product.
Cost product_cost(std::int64_t rows, const at::Tensor& w, int products) {
  return {.flops = 2.0 * products * static_cast<double>(rows) * static_cast<double>(w.numel())};
}

const Implementations<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)>&
forward_list() {
  static const Implementations<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)>
      list("linear",
           {{"bf16", bf16::declines_linear, bf16::linear},
            {"rows", cpu::declines_linear_rows, cpu::linear_rows},
            {"xsmm", xsmm::declines_linear, xsmm::linear},
            {"onednn", onednn::declines_linear, onednn::linear},
            {"reference", nullptr, reference::linear}},
           [](const at::Tensor& x, const at::Tensor& w, const at::Tensor&) {
             return product_cost(x.size(0), w, 1);
           });
  return list;
}

using Backward = LinearGradient(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                LinearGradients);

const Implementations<Backward>& backward_list() {
  static const Implementations<Backward> list(
      "linear.backward",
      {{"bf16", bf16::declines_linear_backward, bf16::linear_backward},
       {"xsmm", xsmm::declines_linear_backward, xsmm::linear_backward},
       {"onednn", onednn::declines_linear_backward, onednn::linear_backward},
       {"reference", nullptr, reference::linear_backward}},
      [](const at::Tensor&, const at::Tensor& x, const at::Tensor& w, LinearGradients wanted) {
        return product_cost(x.size(0), w, wanted.x + wanted.w);
      });
  return list;
}

void check(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  PENSTOCK_CHECK(x.defined() && w.defined(), "[linear] x and w must be given");
  PENSTOCK_CHECK(w.dim() == 2 && x.dim() >= 1 && x.size(-1) == w.size(1), "[linear] x ", x.sizes(),
                 " does not fit w ", w.sizes(), ": x is [..., in], w [out, in]");
  PENSTOCK_CHECK(x.scalar_type() == w.scalar_type() && x.device() == w.device(),
                 "[linear] x and w differ in type or device: ", describe(x), ", ", describe(w));
  if (!b.defined()) return;
  PENSTOCK_CHECK(b.dim() == 1 && b.size(0) == w.size(0), "[linear] b ", b.sizes(),
                 " does not fit w ", w.sizes());
  PENSTOCK_CHECK(b.scalar_type() == x.scalar_type() && b.device() == x.device(),
                 "[linear] b differs from x in type or device: ", describe(b));
}

at::Tensor value(const c10::optional<at::Tensor>& tensor) {
  return tensor ? *tensor : at::Tensor();
}

/// The product of all sizes but the last.
std::int64_t rows_of(const at::Tensor& x) {
  std::int64_t rows = 1;
  for (std::int64_t i = 0; i + 1 < x.dim(); ++i) rows *= x.size(i);
  return rows;
}

/// Runs the operator.  @param x  already rounded if the products are in bf16 (product_operand)
at::Tensor run_forward(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  auto shape = x.sizes().vec();
  shape.back() = w.size(0);
  const at::Tensor rows = x.reshape({rows_of(x), w.size(1)});
  show_product(rows, w);
  return forward_list().run(rows, w, b).view(shape);
}

at::Tensor forward_kernel(const at::Tensor& x, const at::Tensor& w,
                          const c10::optional<at::Tensor>& b) {
  check(x, w, value(b));
  return run_forward(product_operand(x), w, value(b));
}

const c10::TypedOperatorHandle<Signature>& handle() {
  static const auto typed = dispatcher_handle<Signature>("linear");
  return typed;
}

class LinearFunction : public torch::autograd::Function<LinearFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& w, const c10::optional<at::Tensor>& b) {
    const at::AutoDispatchBelowADInplaceOrView below;
    check(x, w, value(b));
    const at::Tensor operand = product_operand(x);  // rounded once, for both passes
    context->save_for_backward({operand, w});
    context->saved_data["bias"] = value(b).defined();
    return run_forward(operand, w, value(b));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor& w = saved[1];
    // An absent b has no edge in the graph, so needs_input_grad(2) may not be called for it.
    const LinearGradients wanted{
        context->needs_input_grad(0), context->needs_input_grad(1),
        context->saved_data["bias"].toBool() && context->needs_input_grad(2)};
    const std::int64_t rows = rows_of(x);
    const auto [dx, dw, db] = backward_list().run(grads[0].reshape({rows, w.size(0)}),
                                                  x.reshape({rows, w.size(1)}), w, wanted);
    return {dx.defined() ? dx.view(x.sizes()) : dx, dw, db};
  }
};

at::Tensor autograd_kernel(const at::Tensor& x, const at::Tensor& w,
                           const c10::optional<at::Tensor>& b) {
  if (needs_gradient(x, w, value(b))) return recorded<LinearFunction>("linear", x, w, b);
  const at::AutoDispatchBelowADInplaceOrView below;
  return forward_kernel(x, w, b);
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& w, const std::optional<at::Tensor>& b) {
  return handle().call(x, w, to_dispatcher(b));
}

}  // namespace penstock::ops

TORCH_LIBRARY_IMPL(penstock, CPU, m) { m.impl("linear", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, CUDA, m) { m.impl("linear", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, Autograd, m) { m.impl("linear", penstock::ops::autograd_kernel); }
