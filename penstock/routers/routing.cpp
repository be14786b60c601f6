// Builds plans. What is selected, and with which gate, is the selectors' matter.
#include "penstock/routers/routing.h"

#include <torch/types.h>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"

namespace penstock {

Plan make_plan(const at::Tensor& gates, const at::Tensor& mask) {
  return make_plan(gates, ops::route_mask(gates, mask));
}

Plan make_plan(const at::Tensor& logits, const ops::Route& route) {
  return {.tokens = logits.size(0),
          .experts = logits.size(1),
          .token = route.token,
          .expert = route.expert,
          .weight = route.weight,
          .offsets = route.offsets,
          .by_token = route.by_token,
          .token_offsets = route.token_offsets,
          .mean_probability = route.mean_probability,
          .logsumexp = route.logsumexp,
          .gate_sums = route.gate_sums};
}

Plan make_merge_plan(const at::Tensor& weights, std::int64_t tokens, std::int64_t segment_length) {
  PENSTOCK_CHECK(
      weights.dim() == 2 && segment_length > 0 && weights.size(0) * segment_length == tokens,
      "make_merge_plan: ", tokens, " tokens in segments of ", segment_length,
      " do not match weights ", weights.sizes());
  Plan plan{.tokens = tokens, .experts = weights.size(1)};
  plan.merge_weights = weights;
  plan.segment_length = segment_length;
  return plan;
}

at::Tensor expert_counts(const Plan& plan) {
  PENSTOCK_ASSERT(!plan.merges(), "a merging plan has no assignments to count");
  at::Tensor counts =
      at::empty({plan.experts}, at::kLong);  // without views: once a layer and token
  const auto* offsets = plan.offsets.data_ptr<std::int64_t>();
  for (std::int64_t e = 0; e < plan.experts; ++e)
    counts.data_ptr<std::int64_t>()[e] = offsets[e + 1] - offsets[e];
  return counts;
}

double sparsity(const Plan& plan) {
  if (plan.merges() || plan.tokens == 0 || plan.experts == 0) return 0;
  return 1 - static_cast<double>(plan.assignments()) /
                 (static_cast<double>(plan.tokens) * static_cast<double>(plan.experts));
}

}  // namespace penstock
