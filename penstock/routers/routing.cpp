// Makes plans, and checks k. Selectors choose the experts and compute the gates.
#include "penstock/routers/routing.h"

#include <torch/types.h>

#include <cmath>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"

namespace penstock {

void check_whole_k(const RouterShape& shape, std::string_view selector) {
  PENSTOCK_CHECK(shape.k == std::floor(shape.k) && shape.k >= 1 &&
                     shape.k <= static_cast<double>(shape.experts),
                 "model.router.k gives ", shape.k, " active experts; selector '", selector,
                 "' needs a whole number from 1 to ", shape.experts);
}

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

Plan plan_of_tokens(const Plan& plan, IndexRange tokens) {
  if (plan.merges()) {
    PENSTOCK_ASSERT(tokens.first % plan.segment_length == 0 &&
                    tokens.size() % plan.segment_length == 0);
    return make_merge_plan(plan.merge_weights.narrow(0, tokens.first / plan.segment_length,
                                                     tokens.size() / plan.segment_length),
                           tokens.size(), plan.segment_length);
  }
  const auto values = [](const at::Tensor& tensor) { return tensor.data_ptr<std::int64_t>(); };
  const auto *token = values(plan.token), *offsets = values(plan.offsets),
             *token_offsets = values(plan.token_offsets), *by_token = values(plan.by_token);
  const std::int64_t first = token_offsets[tokens.first];
  std::vector<std::int64_t> kept, place(static_cast<std::size_t>(plan.assignments()));
  std::vector<std::int64_t> new_offsets = {0}, new_by_token, new_token_offsets;
  for (std::int64_t e = 0; e < plan.experts; ++e) {
    for (std::int64_t a = offsets[e]; a < offsets[e + 1]; ++a) {
      if (token[a] < tokens.first || token[a] >= tokens.last) continue;
      place[static_cast<std::size_t>(a)] = std::ssize(kept);
      kept.push_back(a);
    }
    new_offsets.push_back(std::ssize(kept));
  }
  for (std::int64_t t = tokens.first; t <= tokens.last; ++t)
    new_token_offsets.push_back(token_offsets[t] - first);
  for (std::int64_t i = first; i < token_offsets[tokens.last]; ++i)
    new_by_token.push_back(place[static_cast<std::size_t>(by_token[i])]);
  const auto tensor = [](const std::vector<std::int64_t>& numbers) {
    return torch::tensor(numbers, at::kLong);
  };
  const at::Tensor index = tensor(kept);
  return {.tokens = tokens.size(),
          .experts = plan.experts,
          .k = plan.k,
          .token = plan.token.index_select(0, index).sub_(tokens.first),
          .expert = plan.expert.index_select(0, index),
          .weight = plan.weight.index_select(0, index),
          .offsets = tensor(new_offsets),
          .by_token = tensor(new_by_token),
          .token_offsets = tensor(new_token_offsets),
          .idle = plan.idle};
}

at::Tensor expert_counts(const Plan& plan) {
  PENSTOCK_ASSERT(!plan.merges(), "a merging plan has no assignments to count");
  at::Tensor counts =
      at::empty({plan.experts}, at::kLong);  // no views: this runs for every layer and token
  const auto* offsets = plan.offsets.data_ptr<std::int64_t>();
  const bool* idle = plan.idle.defined() ? plan.idle.data_ptr<bool>() : nullptr;
  for (std::int64_t e = 0; e < plan.experts; ++e)
    counts.data_ptr<std::int64_t>()[e] = idle && idle[e] ? 0 : offsets[e + 1] - offsets[e];
  return counts;
}

std::int64_t active_assignments(const Plan& plan) {
  return plan.idle.defined() ? expert_counts(plan).sum().item<std::int64_t>() : plan.assignments();
}

double sparsity(const Plan& plan) {
  if (plan.merges() || plan.tokens == 0 || plan.experts == 0) return 0;
  return 1 - static_cast<double>(active_assignments(plan)) /
                 (static_cast<double>(plan.tokens) * static_cast<double>(plan.experts));
}

}  // namespace penstock
