// Causal attention: checks, implementations, gradient, dispatcher registration. The backward pass
// keeps q, k, v, y and one number per row.
#include "penstock/ops/causal_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "penstock/ops/check.h"
#include "penstock/ops/implementation.h"
#include "penstock/ops/ops.h"

namespace penstock::ops {
namespace {

using Forward = AttentionResult(const at::Tensor&, const at::Tensor&, const at::Tensor&, double,
                                const at::Tensor&);
using Backward = AttentionGradient(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                   const at::Tensor&, const at::Tensor&, const at::Tensor&, double,
                                   const at::Tensor&);
using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, double,
                             const c10::optional<at::Tensor>&);

/// `products` of 2·hd FLOPs for each pair of positions that may attend, in each head.
Cost attention_cost(const at::Tensor& q, const at::Tensor& start, int products) {
  const auto length = static_cast<double>(q.size(1));
  double pairs = static_cast<double>(q.size(0)) * length * (length + 1) / 2;
  if (start.defined()) pairs -= start.sum().item<double>();
  return {.flops = 2.0 * products * pairs * static_cast<double>(q.size(2) * q.size(3))};
}

const Implementations<Forward>& forward_list() {
  static const Implementations<Forward> list(
      "causal_attention",
      {{"cpu",
        [](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double,
           const at::Tensor&) {
          return cpu::declines({q, k, v});
        },
        cpu::causal_attention},
       {"reference", nullptr, reference::causal_attention}},
      [](const at::Tensor& q, const at::Tensor&, const at::Tensor&, double,
         const at::Tensor& start) { return attention_cost(q, start, 2); });
  return list;
}

const Implementations<Backward>& backward_list() {
  static const Implementations<Backward> list(
      "causal_attention.backward",
      {{"cpu",
        [](const at::Tensor& grad, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
           const at::Tensor&, const at::Tensor&, double, const at::Tensor&) {
          return cpu::declines({grad, q, k, v});
        },
        cpu::causal_attention_backward},
       {"reference", nullptr, reference::causal_attention_backward}},
      [](const at::Tensor&, const at::Tensor& q, const at::Tensor&, const at::Tensor&,
         const at::Tensor&, const at::Tensor&, double,
         const at::Tensor& start) { return attention_cost(q, start, 4); });
  return list;
}

void check_start(const at::Tensor& start, const at::Tensor& q) {
  PENSTOCK_CHECK(start.scalar_type() == at::kLong && start.sizes() == q.sizes().slice(0, 2) &&
                     start.device() == q.device(),
                 "[causal_attention] start ", start.sizes(),
                 " must be i64 [B, T], on q's device, for q ", q.sizes());
  if (!start.is_cpu()) return;  // reading it would wait for the device
  const auto rows = start.contiguous();
  const std::int64_t* first = rows.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < rows.numel(); ++i)
    PENSTOCK_CHECK(first[i] >= 0 && first[i] <= i % q.size(1), "[causal_attention] row ",
                   i % q.size(1), " of sequence ", i / q.size(1), " starts at ", first[i],
                   "; it must start between 0 and itself");
}

AttentionResult checked_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                double scale, const at::Tensor& start) {
  PENSTOCK_CHECK(q.dim() == 4 && k.dim() == 4 && k.sizes() == v.sizes() &&
                     q.sizes().slice(0, 2) == k.sizes().slice(0, 2) && q.size(3) == k.size(3),
                 "[causal_attention] q ", q.sizes(), " must be [B, T, H, hd], k ", k.sizes(),
                 " and v ", v.sizes(), " [B, T, Hkv, hd]");
  PENSTOCK_CHECK(k.size(2) > 0 && q.size(2) % k.size(2) == 0, "[causal_attention] ", q.size(2),
                 " query heads are not a multiple of ", k.size(2), " key/value heads");
  check_same_kind({q, k, v}, "causal_attention");
  if (start.defined()) check_start(start, q);
  return forward_list().run(q, k, v, scale, start);
}

at::Tensor value(const c10::optional<at::Tensor>& tensor) {
  return tensor ? *tensor : at::Tensor();
}

at::Tensor forward_kernel(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          double scale, const c10::optional<at::Tensor>& start) {
  return std::get<0>(checked_forward(q, k, v, scale, value(start)));
}

class CausalAttention : public torch::autograd::Function<CausalAttention> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& q,
                            const at::Tensor& k, const at::Tensor& v, double scale,
                            const c10::optional<at::Tensor>& start) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, logsumexp] = checked_forward(q, k, v, scale, value(start));
    context->save_for_backward({q, k, v, y, logsumexp, value(start)});
    context->saved_data["scale"] = scale;
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const auto [dq, dk, dv] =
        backward_list().run(grads[0], saved[0], saved[1], saved[2], saved[3], saved[4],
                            context->saved_data["scale"].toDouble(), saved[5]);
    return {dq, dk, dv, {}, {}};
  }
};

at::Tensor autograd_kernel(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           double scale, const c10::optional<at::Tensor>& start) {
  if (needs_gradient(q, k, v)) return CausalAttention::apply(q, k, v, scale, start);
  const at::AutoDispatchBelowADInplaceOrView below;
  return forward_kernel(q, k, v, scale, start);
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            double scale, const std::optional<at::Tensor>& start) {
  static const auto handle = dispatcher_handle<Signature>("causal_attention");
  return handle.call(q, k, v, scale, to_dispatcher(start));
}

}  // namespace penstock::ops

TORCH_LIBRARY_IMPL(penstock, CPU, m) { m.impl("causal_attention", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, CUDA, m) { m.impl("causal_attention", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, Autograd, m) {
  m.impl("causal_attention", penstock::ops::autograd_kernel);
}
