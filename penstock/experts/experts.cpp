#include "penstock/experts/experts.h"

#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"

namespace penstock {
namespace {

std::optional<at::Tensor> where_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

}  // namespace

Experts::Experts(std::int64_t experts, std::int64_t d_model, std::int64_t d_ffn, FfnForm form)
    : form_(form) {
  PENSTOCK_CHECK(experts > 0 && d_model > 0 && d_ffn > 0,
                 "experts need sizes above 0, not E = ", experts, ", d = ", d_model,
                 ", f = ", d_ffn);
  const std::string in = form.input_name();
  const std::int64_t rows = form.inputs() * d_ffn;
  gate_up_ = register_parameter(in, at::empty({experts, rows, d_model}));
  if (form.bias) in_bias_ = register_parameter(in + "_bias", at::zeros({experts, rows}));
  down_ = register_parameter("down", at::empty({experts, d_model, d_ffn}));
  if (form.bias) out_bias_ = register_parameter("down_bias", at::zeros({experts, d_model}));
}

void Experts::initialize(double std, double down_std, const InitialDraws& draws) {
  draws.normal(form_.input_name(), gate_up_, std);
  draws.normal("down", down_, down_std);
}

at::Tensor Experts::forward(const at::Tensor& hidden, const Plan& plan,
                            std::optional<std::int64_t> dropout_seed) {
  PENSTOCK_CHECK(hidden.dim() == 2 && hidden.size(1) == gate_up_.size(2),
                 "experts take hidden [T, ", gate_up_.size(2), "], not ", hidden.sizes());
  PENSTOCK_CHECK(plan.tokens == hidden.size(0) && plan.experts == gate_up_.size(0), "a plan for ",
                 plan.tokens, " tokens and ", plan.experts, " experts does not fit ",
                 hidden.size(0), " tokens and ", gate_up_.size(0), " experts");
  if (plan.merges()) return merged(hidden, plan, dropout_seed);
  return ops::expert_ffn(hidden, plan.weight, plan.token, plan.offsets, plan.by_token,
                         plan.token_offsets, gate_up_, down_,
                         {.b_in = where_defined(in_bias_),
                          .b_out = where_defined(out_bias_),
                          .activation = form_.activation,
                          .recompute = recompute,
                          .dropout = dropout_seed ? form_.dropout : 0.0,
                          .dropout_seed = dropout_seed.value_or(0)});
}

at::Tensor Experts::merged(const at::Tensor& hidden, const Plan& plan,
                           std::optional<std::int64_t> dropout_seed) const {
  const at::Tensor& w = plan.merge_weights;  // [S, E]
  const std::int64_t segments = w.size(0), width = hidden.size(1);
  const auto blend = [&](const at::Tensor& weights) {
    return w.matmul(weights.flatten(1)).view({segments, weights.size(1), weights.size(2)});
  };
  const at::Tensor rows = hidden.reshape({segments, plan.segment_length, width});
  at::Tensor in = rows.bmm(blend(gate_up_).transpose(1, 2));  // [S, len, m·f]
  if (form_.bias) in = in + w.matmul(in_bias_).unsqueeze(1);
  at::Tensor inner = activate(form_, in);  // [S, len, f]
  if (dropout_seed && form_.dropout > 0) inner = ops::dropout(inner, form_.dropout, *dropout_seed);
  at::Tensor y = inner.bmm(blend(down_).transpose(1, 2));
  if (form_.bias) y = y + w.matmul(out_bias_).unsqueeze(1);
  return y.reshape({plan.tokens, width});  // [T, d]
}

}  // namespace penstock
