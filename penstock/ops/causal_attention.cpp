// Causal attention: checks, implementations, gradient, dispatcher registration. The backward pass
// keeps qkv, y and one number per row.
#include "penstock/ops/causal_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "penstock/ops/check.h"
#include "penstock/ops/implementation.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/second_derivative.h"

namespace penstock::ops {

std::string describe(const AttentionOptions& options) {
  return concat("H ", options.heads, ", G ", options.kv_heads,
                options.rotation.defined() ? ", rotated" : "",
                options.start.defined() ? ", with borders" : "",
                options.precision == ProductPrecision::bf16 ? ", bf16" : "");
}

double bytes_of(const AttentionOptions& options) {
  return bytes_of(options.rotation) + bytes_of(options.start);
}

namespace {

using Forward = AttentionResult(const at::Tensor&, const AttentionOptions&);
using Backward = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                            const at::Tensor&, const AttentionOptions&);
using MaybeTensor = c10::optional<at::Tensor>;
using Signature = at::Tensor(const at::Tensor&, std::int64_t, std::int64_t, double,
                             const MaybeTensor&, bool, const MaybeTensor&);

/// `products` products of 2·hd FLOPs for each pair of positions that may attend, in each head.
Cost attention_cost(const at::Tensor& qkv, const AttentionOptions& options, int products) {
  const auto length = static_cast<double>(qkv.size(1));
  double pairs = static_cast<double>(qkv.size(0)) * length * (length + 1) / 2;
  if (options.start.defined()) pairs -= options.start.sum().item<double>();
  const auto width = static_cast<double>(options.heads * options.head_dim(qkv));
  return {.flops = 2.0 * products * pairs * width};
}

const Implementations<Forward>& forward_list() {
  static const Implementations<Forward> list(
      "causal_attention",
      {{"bf16", bf16::declines_causal_attention, bf16::causal_attention},
       {"cpu",
        [](const at::Tensor& qkv, const AttentionOptions& options) {
          return cpu::declines({qkv}, options.precision);
        },
        cpu::causal_attention},
       {"reference", nullptr, reference::causal_attention}},
      [](const at::Tensor& qkv, const AttentionOptions& options) {
        return attention_cost(qkv, options, 2);
      });
  return list;
}

const Implementations<Backward>& backward_list() {
  static const Implementations<Backward> list(
      "causal_attention.backward",
      {{"bf16",
        [](const at::Tensor&, const at::Tensor& qkv, const at::Tensor&, const at::Tensor&,
           const AttentionOptions& options) {
          return bf16::declines_causal_attention(qkv, options);
        },
        bf16::causal_attention_backward},
       {"cpu",
        [](const at::Tensor& grad, const at::Tensor& qkv, const at::Tensor&, const at::Tensor&,
           const AttentionOptions& options) {
          return cpu::declines({grad, qkv}, options.precision);
        },
        cpu::causal_attention_backward},
       {"reference", nullptr, reference::causal_attention_backward}},
      [](const at::Tensor&, const at::Tensor& qkv, const at::Tensor&, const at::Tensor&,
         const AttentionOptions& options) { return attention_cost(qkv, options, 4); });
  return list;
}

void check_start(const at::Tensor& start, const at::Tensor& qkv) {
  PENSTOCK_CHECK(start.scalar_type() == at::kLong && start.sizes() == qkv.sizes().slice(0, 2) &&
                     start.device() == qkv.device(),
                 "[causal_attention] start ", start.sizes(),
                 " must be i64 [B, T], on qkv's device, for qkv ", qkv.sizes());
  if (!start.is_cpu()) return;  // reading it would wait for the device
  const auto rows = start.contiguous();
  const std::int64_t* first = rows.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < rows.numel(); ++i)
    PENSTOCK_CHECK(first[i] >= 0 && first[i] <= i % qkv.size(1), "[causal_attention] row ",
                   i % qkv.size(1), " of sequence ", i / qkv.size(1), " starts at ", first[i],
                   "; it must start between 0 and itself");
}

void check(const at::Tensor& qkv, const AttentionOptions& options) {
  const std::int64_t heads = options.heads, kv_heads = options.kv_heads;
  PENSTOCK_CHECK(kv_heads > 0 && heads > 0 && heads % kv_heads == 0, "[causal_attention] ", heads,
                 " query heads are not a positive multiple of ", kv_heads, " key/value heads");
  PENSTOCK_CHECK(qkv.dim() == 3 && qkv.size(2) > 0 && qkv.size(2) % (heads + 2 * kv_heads) == 0,
                 "[causal_attention] qkv ", qkv.sizes(), " must be [B, T, (H+2G)·hd] for H ", heads,
                 " and G ", kv_heads);
  const std::int64_t hd = options.head_dim(qkv);
  const at::Tensor& rotation = options.rotation;
  check_same_kind({qkv, rotation}, "causal_attention");
  if (rotation.defined())
    PENSTOCK_CHECK(rotation.dim() == 2 && rotation.size(0) == qkv.size(1) &&
                       rotation.size(1) == hd && hd % 2 == 0,
                   "[causal_attention] rotation ", rotation.sizes(),
                   " must be [T, hd] with hd even, for qkv ", qkv.sizes(), " and hd ", hd);
  if (options.start.defined()) check_start(options.start, qkv);
}

/// Takes the precision of this thread's products, which applies only to f32.
AttentionOptions options_of(const at::Tensor& qkv, std::int64_t heads, std::int64_t kv_heads,
                            double scale, const MaybeTensor& rotation, bool rope_adjacent,
                            const MaybeTensor& start) {
  return {.heads = heads,
          .kv_heads = kv_heads,
          .scale = scale,
          .rotation = rotation ? *rotation : at::Tensor(),
          .rope_adjacent = rope_adjacent,
          .start = start ? *start : at::Tensor(),
          .precision = product_precision(qkv)};
}

AttentionResult checked_forward(const at::Tensor& qkv, const AttentionOptions& options) {
  check(qkv, options);
  return forward_list().run(qkv, options);
}

at::Tensor forward_kernel(const at::Tensor& qkv, std::int64_t heads, std::int64_t kv_heads,
                          double scale, const MaybeTensor& rotation, bool rope_adjacent,
                          const MaybeTensor& start) {
  return std::get<0>(checked_forward(
      qkv, options_of(qkv, heads, kv_heads, scale, rotation, rope_adjacent, start)));
}

class CausalAttention : public torch::autograd::Function<CausalAttention> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& qkv,
                            const AttentionOptions& options) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto [y, logsumexp] = checked_forward(qkv, options);
    context->save_for_backward({qkv, y, logsumexp, options.rotation, options.start});
    context->saved_data["heads"] = options.heads;
    context->saved_data["kv_heads"] = options.kv_heads;
    context->saved_data["scale"] = options.scale;
    context->saved_data["rope_adjacent"] = options.rope_adjacent;
    context->saved_data["precision"] = static_cast<std::int64_t>(options.precision);
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const AttentionOptions options = {
        .heads = context->saved_data["heads"].toInt(),
        .kv_heads = context->saved_data["kv_heads"].toInt(),
        .scale = context->saved_data["scale"].toDouble(),
        .rotation = saved[3],
        .rope_adjacent = context->saved_data["rope_adjacent"].toBool(),
        .start = saved[4],
        .precision = static_cast<ProductPrecision>(context->saved_data["precision"].toInt())};
    return {backward_list().run(grads[0], saved[0], saved[1], saved[2], options), {}};
  }
};

at::Tensor autograd_kernel(const at::Tensor& qkv, std::int64_t heads, std::int64_t kv_heads,
                           double scale, const MaybeTensor& rotation, bool rope_adjacent,
                           const MaybeTensor& start) {
  if (needs_gradient(qkv))
    return recorded<CausalAttention>(
        "causal_attention", qkv,
        options_of(qkv, heads, kv_heads, scale, rotation, rope_adjacent, start));
  const at::AutoDispatchBelowADInplaceOrView below;
  return forward_kernel(qkv, heads, kv_heads, scale, rotation, rope_adjacent, start);
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& qkv, std::int64_t heads, std::int64_t kv_heads,
                            double scale, const std::optional<at::Tensor>& rotation,
                            bool rope_adjacent, const std::optional<at::Tensor>& start) {
  static const auto handle = dispatcher_handle<Signature>("causal_attention");
  return handle.call(qkv, heads, kv_heads, scale, to_dispatcher(rotation), rope_adjacent,
                     to_dispatcher(start));
}

}  // namespace penstock::ops

TORCH_LIBRARY_IMPL(penstock, CPU, m) { m.impl("causal_attention", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, CUDA, m) { m.impl("causal_attention", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, Autograd, m) {
  m.impl("causal_attention", penstock::ops::autograd_kernel);
}
