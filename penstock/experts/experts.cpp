#include "penstock/experts/experts.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"

namespace penstock {

Experts::Experts(std::int64_t experts, std::int64_t d_model, std::int64_t d_ffn) {
  PENSTOCK_CHECK(experts > 0 && d_model > 0 && d_ffn > 0,
                 "experts need sizes above 0, not E = ", experts, ", d = ", d_model,
                 ", f = ", d_ffn);
  gate_up_ = register_parameter("gate_up", at::empty({experts, 2 * d_ffn, d_model}));
  down_ = register_parameter("down", at::empty({experts, d_model, d_ffn}));
  initialize(0.02, 0.02, at::detail::getDefaultCPUGenerator());
}

void Experts::initialize(double std, double down_std, at::Generator generator) {
  torch::NoGradGuard no_grad;
  gate_up_.normal_(0, std, generator);
  down_.normal_(0, down_std, generator);
}

at::Tensor Experts::forward(const at::Tensor& hidden, const Plan& plan) {
  PENSTOCK_CHECK(hidden.dim() == 2 && hidden.size(1) == gate_up_.size(2),
                 "experts take hidden [T, ", gate_up_.size(2), "], not ", hidden.sizes());
  PENSTOCK_CHECK(plan.tokens == hidden.size(0) && plan.experts == gate_up_.size(0), "a plan for ",
                 plan.tokens, " tokens and ", plan.experts, " experts does not fit ",
                 hidden.size(0), " tokens and ", gate_up_.size(0), " experts");
  if (plan.merges()) return merged(hidden, plan);
  return ops::expert_ffn(hidden, plan.weight, plan.token, plan.offsets, plan.by_token,
                         plan.token_offsets, gate_up_, down_, {.recompute = recompute});
}

at::Tensor Experts::merged(const at::Tensor& hidden, const Plan& plan) const {
  const at::Tensor& w = plan.merge_weights;  // [S, E]
  const std::int64_t segments = w.size(0), width = hidden.size(1);
  const auto blend = [&](const at::Tensor& weights) {
    return w.matmul(weights.flatten(1)).view({segments, weights.size(1), weights.size(2)});
  };
  const at::Tensor rows = hidden.reshape({segments, plan.segment_length, width});
  const at::Tensor inner = ops::swiglu(rows.bmm(blend(gate_up_).transpose(1, 2)));  // [S, len, f]
  return inner.bmm(blend(down_).transpose(1, 2)).reshape({plan.tokens, width});     // [T, d]
}

}  // namespace penstock
