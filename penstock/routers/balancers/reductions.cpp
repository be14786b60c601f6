#include "penstock/routers/balancers/reductions.h"

#include <torch/types.h>

#include <algorithm>

namespace penstock {

at::Tensor mean_probability(const Scores& scores, const Plan& plan) {
  const bool noisy = scores.clean_logits.defined();
  if (plan.mean_probability.defined() && !noisy) return plan.mean_probability;
  const at::Tensor& logits = noisy ? scores.clean_logits : scores.logits;
  const double rows = static_cast<double>(std::max<std::int64_t>(1, logits.size(0)));
  return logits.softmax(1).sum(0).div(rows);
}

at::Tensor row_logsumexp(const Scores& scores, const Plan& plan) {
  return plan.logsumexp.defined() ? plan.logsumexp : scores.logits.logsumexp(1);
}

at::Tensor gate_sums(const Plan& plan) {
  if (plan.gate_sums.defined()) return plan.gate_sums;
  return at::zeros({plan.experts}, plan.weight.options()).index_add(0, plan.expert, plan.weight);
}

}  // namespace penstock
