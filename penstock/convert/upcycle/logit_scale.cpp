#include "penstock/convert/upcycle/logit_scale.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <functional>

#include "penstock/base/error.h"
#include "penstock/convert/sample_windows.h"
#include "penstock/convert/upcycle/calibration.h"
#include "penstock/convert/upcycle/head_mixture.h"
#include "penstock/convert/upcycle/started_routers.h"
#include "penstock/routers/parameter_names.h"

namespace penstock {
namespace {

constexpr std::int64_t kMostTokens = 8192;
constexpr double kTolerance = 1e-6;  // nats

/// The logits [T, E] of each layer for the calibration tokens.
std::vector<at::Tensor> logits_over(
    const ModelSource& parent, const at::Tensor& windows, std::size_t layers,
    const std::function<at::Tensor(std::size_t layer, const at::Tensor& inputs)>& score,
    const ConversionProgress& progress) {
  std::vector<std::vector<at::Tensor>> parts(layers);
  visit_feed_forward_inputs(
      parent, some_windows(windows, kMostTokens),
      [&](std::int64_t layer, const at::Tensor& inputs) {
        const auto at = static_cast<std::size_t>(layer);
        parts[at].push_back(score(at, inputs));
      },
      progress);
  std::vector<at::Tensor> out;
  for (const auto& layer : parts) out.push_back(at::cat(layer));
  return out;
}

/// What a token's gates sum to outside training, by layer: the mean over some calibration tokens.
/// Each window is routed by itself, because some routers read a pass's other tokens.
std::vector<double> mean_gate_sums(const StartedRouters& routers, const ModelSource& parent,
                                   const at::Tensor& windows, const ConversionProgress& progress) {
  std::vector<double> sums(routers.layers.size());
  const at::Tensor some = some_windows(windows, kMostTokens);
  const RoutingContext context{.sequence_length = some.size(1)};
  visit_feed_forward_inputs(
      parent, some,
      [&](std::int64_t layer, const at::Tensor& inputs) {
        const auto at = static_cast<std::size_t>(layer);
        for (const at::Tensor& window : inputs.split(some.size(1)))
          sums[at] += routers.layers[at]
                          ->route(window, context)
                          .plan.weight.sum(at::kDouble)
                          .item<double>();
      },
      progress);
  for (double& sum : sums) sum /= static_cast<double>(some.numel());
  return sums;
}

}  // namespace

double mean_entropy(const at::Tensor& logits) {
  const at::Tensor log_p = logits.to(at::kDouble).log_softmax(1);
  return -(log_p.exp() * log_p).nan_to_num(0.0).sum(1).mean().item<double>();
}

double factor_for_entropy(const at::Tensor& logits, double entropy) {
  PENSTOCK_CHECK(entropy > 0 && entropy < std::log(static_cast<double>(logits.size(1))),
                 "options.start_entropy = ", entropy, ": must be above 0 and below ln ",
                 logits.size(1), " = ", std::log(static_cast<double>(logits.size(1))),
                 " nats, the entropy of evenly spread gates");
  const double scale = logits.to(at::kDouble).std(1, /*unbiased=*/false).mean().item<double>();
  PENSTOCK_CHECK(scale > 0, "options.start_entropy = ", entropy,
                 ": the router's logits are all equal, so no factor changes their entropy");
  double low = std::log(1e-9 / scale), high = std::log(1e9 / scale);
  const auto entropy_at = [&](double log_factor) {
    return mean_entropy(logits.to(at::kDouble) * std::exp(log_factor));
  };
  PENSTOCK_CHECK(entropy_at(high) < entropy, "options.start_entropy = ", entropy,
                 ": some experts have equal logits for the same tokens, so the entropy stays "
                 "above that; give a higher one");
  while (high - low > 1e-12) {
    const double middle = (low + high) / 2, found = entropy_at(middle);
    if (std::abs(found - entropy) < kTolerance) return std::exp(middle);
    (found > entropy ? low : high) = middle;
  }
  return std::exp(low);
}

at::Tensor folded_logits(const RouterTensors& plain, const at::Tensor& inputs) {
  const at::Tensor logits = inputs.matmul(plain.at(kScorerWeight).t());
  return plain.contains(kScorerBias) ? logits + plain.at(kScorerBias) : logits;
}

void heads_to_entropy(std::vector<RouterTensors>& heads, const ModelSource& parent,
                      const at::Tensor& windows, double entropy,
                      const ConversionProgress& progress) {
  std::vector<RouterTensors> folded;
  for (const RouterTensors& layer : heads) folded.push_back(collapsed_mixture(layer));
  const auto logits = logits_over(
      parent, windows, heads.size(),
      [&](std::size_t layer, const at::Tensor& inputs) {
        return folded_logits(folded[layer], inputs);
      },
      progress);
  for (std::size_t layer = 0; layer < heads.size(); ++layer)
    heads[layer].at(kHeadKeys) *= factor_for_entropy(logits[layer], entropy);
}

void scale_to_entropy(std::vector<RouterTensors>& routers, const ModelSource& parent,
                      const ModelConfig& config, const at::Tensor& windows,
                      const UpcycleOptions& options, UpcycleReport& report,
                      const ConversionProgress& progress) {
  const torch::NoGradGuard no_grad;
  const StartedRouters started = started_routers(routers, config);
  const auto logits = logits_over(
      parent, windows, routers.size(),
      [&](std::size_t layer, const at::Tensor& inputs) {
        const at::Tensor scores = started.layers[layer]->scorer().score(inputs, {}).logits;
        PENSTOCK_CHECK(scores.defined(),
                       "options.start_entropy: this method's router has no logits");
        return scores;
      },
      progress);
  for (std::size_t layer = 0; layer < routers.size(); ++layer) {
    Scorer& scorer = started.layers[layer]->scorer();
    const double factor = factor_for_entropy(logits[layer], options.start_entropy);
    PENSTOCK_CHECK(scorer.scale_logits(factor), "options.start_entropy: scorer '",
                   resolve(config.router).scorer,
                   "' has no parameter that scales its logits; leave it out");
    report.logit_scales.push_back(
        {.entropy_before = mean_entropy(logits[layer]), .factor = factor});
    for (const auto& [name, tensor] : tensors_of(scorer)) routers[layer][name] = tensor;
  }
}

void measure_gate_sums(std::vector<RouterTensors>& routers, const ModelSource& parent,
                       const ModelConfig& config, const at::Tensor& windows, UpcycleReport& report,
                       const ConversionProgress& progress) {
  const torch::NoGradGuard no_grad;
  const ResolvedRouter router = resolve(config.router);
  const StartedRouters started = started_routers(routers, config);
  report.gate_sums = mean_gate_sums(started, parent, windows, progress);
  if (router.traits.gates != GateForm::relu) return;
  // A token chooses all shards of a feed-forward together, and each shard has a gate.
  const auto wanted = static_cast<double>(config.moe.granularity);
  for (std::size_t layer = 0; layer < routers.size(); ++layer) {
    Scorer& scorer = started.layers[layer]->scorer();
    const double sum = report.gate_sums[layer];
    PENSTOCK_CHECK(sum > 0, "options.start parent: the gates of layer ", layer,
                   " are 0 for every token of the calibration text, so no factor makes them sum to "
                   "one; give another options.seed or options.scorer");
    PENSTOCK_CHECK(scorer.scale_logits(wanted / sum), "options.start parent: scorer '",
                   router.scorer,
                   "' has no parameter that scales its logits, so its gates cannot be made to sum "
                   "to one; give another options.scorer, or options.start published");
    for (const auto& [name, tensor] : tensors_of(scorer)) routers[layer][name] = tensor;
  }
}

}  // namespace penstock
