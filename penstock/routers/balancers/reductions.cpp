#include "penstock/routers/balancers/reductions.h"

#include <torch/types.h>

#include <algorithm>

namespace penstock {

at::Tensor mean_probability(const Scores& scores, const Plan& plan, std::int64_t groups) {
  const bool clean = scores.clean_logits.defined();
  if (plan.mean_probability.defined() && !clean && groups == 1)
    return plan.mean_probability.unsqueeze(0);
  const at::Tensor& logits = clean ? scores.clean_logits : scores.logits;
  const std::int64_t rows = logits.size(0) / groups;
  return logits.softmax(1)
      .view({groups, rows, logits.size(1)})
      .sum(1)
      .div(static_cast<double>(std::max<std::int64_t>(1, rows)));
}

at::Tensor row_logsumexp(const Scores& scores, const Plan& plan) {
  return plan.logsumexp.defined() ? plan.logsumexp : scores.logits.logsumexp(1);
}

at::Tensor gate_sums(const Plan& plan, std::int64_t groups) {
  if (plan.gate_sums.defined() && groups == 1) return plan.gate_sums.unsqueeze(0);
  return sum_by_group(plan, groups, plan.weight);
}

at::Tensor sum_by_group(const Plan& plan, std::int64_t groups, const at::Tensor& values) {
  const std::int64_t tokens = std::max<std::int64_t>(1, plan.tokens / groups);
  const at::Tensor place = plan.token.div(tokens, "trunc").mul(plan.experts).add(plan.expert);
  return at::zeros({groups * plan.experts}, values.options())
      .index_add(0, place, values)
      .view({groups, plan.experts});
}

}  // namespace penstock
