// Causal attention: checks and gradient. Only q, k, v, y and one number per row are kept.
#include <torch/torch.h>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/reference/decoder.h"

namespace penstock::ops {
namespace {

std::optional<at::Tensor> defined(const at::Tensor& x) {
  return x.defined() ? std::optional(x) : std::nullopt;
}

class CausalAttention : public torch::autograd::Function<CausalAttention> {
 public:
  /// `start` may be undefined.
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& q,
                            const at::Tensor& k, const at::Tensor& v, double scale,
                            const at::Tensor& start) {
    auto [y, logsumexp] = reference::causal_attention(q, k, v, scale, defined(start));
    ctx->save_for_backward({q, k, v, y, logsumexp, start});
    ctx->saved_data["scale"] = scale;
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    auto [dq, dk, dv] = reference::causal_attention_backward(
        grads[0], saved[0], saved[1], saved[2], saved[3], saved[4],
        ctx->saved_data["scale"].toDouble(), defined(saved[5]));
    return {dq, dk, dv, {}, {}};
  }
};

void check_start(const at::Tensor& start, const at::Tensor& q) {
  PENSTOCK_CHECK(start.scalar_type() == at::kLong && start.sizes() == q.sizes().slice(0, 2),
                 "[causal_attention] start ", start.sizes(), " must be i64 [B, T] for q ", q.sizes());
  if (!start.is_cpu()) return;
  const auto rows = start.contiguous();
  const std::int64_t* first = rows.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < rows.numel(); ++i)
    PENSTOCK_CHECK(first[i] >= 0 && first[i] <= i % q.size(1), "[causal_attention] row ",
                   i % q.size(1), " of sequence ", i / q.size(1), " starts at ", first[i],
                   "; it must start between 0 and itself");
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            double scale, const std::optional<at::Tensor>& start) {
  PENSTOCK_CHECK(q.dim() == 4 && k.dim() == 4 && k.sizes() == v.sizes() &&
                     q.sizes().slice(0, 2) == k.sizes().slice(0, 2) && q.size(3) == k.size(3),
                 "[causal_attention] q ", q.sizes(), " must be [B, T, H, hd] and k ", k.sizes(),
                 " and v ", v.sizes(), " [B, T, Hkv, hd]");
  PENSTOCK_CHECK(k.size(2) > 0 && q.size(2) % k.size(2) == 0, "[causal_attention] ", q.size(2),
                 " query heads are not a multiple of ", k.size(2), " key/value heads");
  PENSTOCK_CHECK(q.is_floating_point() && q.scalar_type() == k.scalar_type() &&
                     q.scalar_type() == v.scalar_type(),
                 "[causal_attention] q, k and v must be of one floating type");
  if (start) check_start(*start, q);
  return CausalAttention::apply(q, k, v, scale, start ? *start : at::Tensor());
}

}  // namespace penstock::ops
