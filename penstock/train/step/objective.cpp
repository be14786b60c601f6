#include "penstock/train/step/objective.h"

#include <torch/types.h>

#include <algorithm>

#include "penstock/base/error.h"

namespace penstock {

Objective training_objective(const ModelConfig& config) {
  if (config.moe_layers() == 0) return {};
  const ResolvedRouter router = resolve(config.router);
  const auto passes = static_cast<int>(router.traits.forward_passes);
  PENSTOCK_ASSERT(passes == 1 || passes == 2);
  return {.passes = passes, .weight = passes == 2 ? router.traits.disagreement : 0};
}

std::string part_that_pools(const ModelConfig& config) {
  if (config.moe_layers() == 0) return "";
  const ResolvedRouter router = resolve(config.router);
  for (const auto& name : router.balancers)
    if (balancer_registry().at(name).traits_under(router.options.at(name)).pools_step) return name;
  return "";
}

at::Tensor disagreement(const at::Tensor& first, const at::Tensor& second) {
  const at::Tensor log_p = torch::log_softmax(first, -1), log_q = torch::log_softmax(second, -1);
  return 0.5 * ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(-1).mean();
}

DisagreementPass disagreement_backward(const LanguageModel& model, const at::Tensor& first,
                                       const at::Tensor& second, double scale,
                                       std::int64_t logits_bytes) {
  const RankRows& of_all = model.place().rows;
  const std::int64_t rows = first.size(0);
  const std::int64_t row_bytes = model.config().vocab * first.element_size();
  const std::int64_t chunk = std::clamp<std::int64_t>(logits_bytes / row_bytes, 1, rows);
  DisagreementPass out{.first_gradient = torch::empty_like(first),
                       .second_gradient = torch::empty_like(second)};
  for (std::int64_t begin = 0; begin < rows; begin += chunk) {
    const std::int64_t count = std::min(chunk, rows - begin);
    const auto part = [&](const at::Tensor& hidden) {
      return hidden.detach().narrow(0, begin, count).clone().requires_grad_();
    };
    const at::Tensor p = part(first), q = part(second);  // [C, d]
    const double share = static_cast<double>(count) / static_cast<double>(rows);
    const at::Tensor value = share * disagreement(model.logits(p), model.logits(q));
    (scale * of_all.share() * value).backward();
    out.value += value.item<double>();
    out.first_gradient.narrow(0, begin, count).copy_(p.grad());
    out.second_gradient.narrow(0, begin, count).copy_(q.grad());
  }
  out.value = of_all.mean(torch::full({}, out.value, at::kDouble)).item<double>();
  return out;
}

}  // namespace penstock
