#include "penstock/convert/export/certificate.h"

#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/models/evaluation_mode.h"

namespace penstock {
namespace {

at::Tensor chosen_experts(const Plan& plan) {
  const at::Tensor out = at::zeros({plan.tokens, plan.experts}, at::kBool);
  if (plan.assignments() > 0)
    out.index_put_({plan.token.cpu(), plan.expert.cpu()}, at::ones({}, at::kBool));
  return out;
}

/// Counts the rows whose experts differ although the k-th and the next logit are no near tie.
std::int64_t beyond_ties(const at::Tensor& ours, const at::Tensor& theirs,
                         const at::Tensor& router) {
  const at::Tensor differ = ours.ne(theirs).any(1);
  if (!differ.any().item<bool>() || router.size(1) < 2) return 0;
  const at::Tensor counts = ours.sum(1);  // [T]
  const at::Tensor sorted = std::get<0>(router.sort(1, /*descending=*/true));
  const at::Tensor last = counts.clamp(1, router.size(1) - 1).unsqueeze(1);  // [T, 1]
  const at::Tensor gap = (sorted.gather(1, last - 1) - sorted.gather(1, last)).squeeze(1);
  const at::Tensor near = gap.le(1e-4 * router.abs().max());
  return differ.logical_and(near.logical_not()).sum().item<std::int64_t>();
}

}  // namespace

Observed observe(LanguageModel& model, const at::Tensor& tokens) {
  const EvaluationMode measuring(model);
  Observed out;
  const auto tap = [&](std::int64_t, const RoutingResult& result) {
    out.chosen.push_back(chosen_experts(result.plan));
    out.router.push_back(result.scores.logits.detach().to(at::kFloat).cpu());
  };
  const ModelOutput output = model.forward({.tokens = tokens}, {}, tap);
  out.logits = model.logits(output.hidden).to(at::kFloat).cpu();
  return out;
}

Agreement compare(const Observed& ours, const Observed& theirs) {
  PENSTOCK_ASSERT(ours.logits.sizes() == theirs.logits.sizes() &&
                  ours.chosen.size() == theirs.chosen.size());
  Agreement out{.tokens = ours.logits.size(0)};
  if (out.tokens == 0) return out;
  out.largest_logit = ours.logits.abs().max().item<double>();
  out.max_logit_difference = (ours.logits - theirs.logits).abs().max().item<double>();
  out.same_top_token =
      ours.logits.argmax(1).eq(theirs.logits.argmax(1)).to(at::kDouble).mean().item<double>();
  double same = 0;
  bool alike = true;  // so far; another expert's output in one layer changes all layers above
  for (std::size_t i = 0; i < ours.chosen.size(); ++i) {
    same += ours.chosen[i].eq(theirs.chosen[i]).all(1).to(at::kDouble).mean().item<double>();
    if (alike)
      out.differ_beyond_ties = beyond_ties(ours.chosen[i], theirs.chosen[i], ours.router[i]);
    alike = alike && ours.chosen[i].equal(theirs.chosen[i]);
  }
  if (!ours.chosen.empty()) out.same_experts = same / static_cast<double>(ours.chosen.size());
  return out;
}

nlohmann::ordered_json to_json(const Certificate& certificate) {
  nlohmann::ordered_json out = {{"path", certificate.path},
                                {"format", word(certificate.format)},
                                {"architecture", certificate.architecture},
                                {"dtype", word(certificate.dtype)},
                                {"verdict", word(certificate.verdict)},
                                {"routers", certificate.routers},
                                {"weights_rounded", certificate.rounded}};
  if (certificate.asked_dtype) out["asked_dtype"] = word(*certificate.asked_dtype);
  const Agreement& agreement = certificate.agreement;
  if (agreement.tokens > 0)
    out["measured"] = {{"tokens", agreement.tokens},
                       {"of", certificate.tokens},
                       {"largest_logit", agreement.largest_logit},
                       {"max_logit_difference", agreement.max_logit_difference},
                       {"same_top_token", agreement.same_top_token},
                       {"top_k_agreement", agreement.same_experts},
                       {"experts_differ_beyond_ties", agreement.differ_beyond_ties}};
  else
    out["measured"] = nullptr;
  out["notes"] = certificate.notes;
  return out;
}

}  // namespace penstock
