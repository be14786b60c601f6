// The doctor's check of the routers: gates, entropy, balance, ties, folding.
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "penstock/doctor/doctor.h"
#include "penstock/layers/moe.h"
#include "penstock/models/evaluation_mode.h"
#include "penstock/routers/coefficients.h"
#include "penstock/routers/registry.h"

namespace penstock::doctor {
namespace {

constexpr double kFoldTolerance = 1e-5;  // of the largest logit
constexpr double kCollapsedLoad = 1.1;   // largest load_experts ÷ active of a collapsed layer
constexpr double kNearlyIdle = 0.1;      // of an even load; an expert with less is nearly idle

/// One layer's routing over all windows.
struct Seen {
  std::vector<at::Tensor> logits, hidden, gate_sums;
  at::Tensor counts;  // [E] i64
  std::int64_t tokens = 0, assignments = 0;
  bool finite = true, negative = false;
};

void add(const RoutingResult& result, Seen& seen) {
  const Plan& plan = result.plan;
  if (result.scores.logits.defined()) seen.logits.push_back(result.scores.logits);
  seen.hidden.push_back(result.hidden);
  seen.tokens += plan.tokens;
  if (plan.merges()) return;
  seen.finite = seen.finite && plan.weight.isfinite().all().item<bool>();
  seen.negative = seen.negative || plan.weight.lt(0).any().item<bool>();
  seen.assignments += plan.assignments();
  const at::Tensor counts = expert_counts(plan);
  seen.counts = seen.counts.defined() ? seen.counts + counts : counts;
  seen.gate_sums.push_back(
      at::zeros({plan.tokens}, plan.weight.options()).index_add(0, plan.token, plan.weight));
}

/// The number of pairs of experts that have the same logits for every token. Shards of one
/// feed-forward are tied on purpose and are not counted.
std::int64_t tied_pairs(const at::Tensor& logits, std::int64_t groups) {
  const std::int64_t experts = logits.size(1) / groups;
  std::int64_t pairs = 0;
  for (std::int64_t i = 0; i < experts; ++i)
    for (std::int64_t j = i + 1; j < experts; ++j)
      pairs += logits.select(1, i).equal(logits.select(1, j));
  return pairs;
}

double fold_error(const Scorer& scorer, const at::Tensor& hidden, const at::Tensor& logits) {
  const FoldedScorer folded = scorer.fold();
  at::Tensor plain = hidden.matmul(folded.weight.to(hidden.options()).t());
  if (folded.bias.defined()) plain = plain + folded.bias.to(hidden.options());
  return ((plain - logits).abs().max() / logits.abs().max().clamp_min(1e-30)).item<double>();
}

LayerFigures figures_of(const Seen& seen, MoeLayer& layer, const ResolvedRouter& router,
                        std::int64_t index) {
  LayerFigures out{.layer = index};
  if (!router.traits.no_logits) {
    const at::Tensor logits = at::cat(seen.logits).to(at::kDouble);  // [T, E]
    const at::Tensor logs = logits.log_softmax(1);
    out.entropy = -(logs.exp() * logs).sum(1).mean().item<double>();
    out.logit_sd = logits.std(/*unbiased=*/false).item<double>();
    if (router.traits.foldable && !router.traits.merges)
      out.fold_error =
          fold_error(layer.router().scorer(), at::cat(seen.hidden), at::cat(seen.logits));
  }
  if (!seen.counts.defined()) return out;
  const at::Tensor sums = at::cat(seen.gate_sums);  // [T]
  out.gate_sum = sums.mean().item<double>();
  out.least_gates = sums.min().item<double>();
  out.most_gates = sums.max().item<double>();
  out.active = static_cast<double>(seen.assignments) / static_cast<double>(seen.tokens);
  const auto assignments = static_cast<double>(std::max<std::int64_t>(1, seen.assignments));
  out.largest_share = static_cast<double>(seen.counts.max().item<std::int64_t>()) / assignments;
  const at::Tensor load = seen.counts.to(at::kDouble) / assignments;  // [E]
  out.load_experts = std::exp(-at::xlogy(load, load).sum().item<double>());
  out.idle = seen.counts.eq(0).sum().item<std::int64_t>();
  const auto experts = static_cast<double>(load.size(0));
  out.nearly_idle = load.lt(kNearlyIdle / experts).sum().item<std::int64_t>();
  return out;
}

/// The smallest and the largest value of a figure over the layers, as text.
std::string range(const std::vector<LayerFigures>& layers, double LayerFigures::*figure) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (const LayerFigures& layer : layers) {
    least = std::min(least, layer.*figure);
    most = std::max(most, layer.*figure);
  }
  return fmt::format("{:.3g} to {:.3g}", least, most);
}

void judge_gates(const std::map<std::int64_t, Seen>& seen, Diagnosis& diagnosis) {
  bool finite = true, negative = false;
  for (const auto& [layer, view] : seen) {
    finite = finite && view.finite;
    negative = negative || view.negative;
  }
  const auto& layers = diagnosis.layers;
  const std::string finding =
      fmt::format("mean sum of a token's gates by layer {}, experts per token {}",
                  range(layers, &LayerFigures::gate_sum), range(layers, &LayerFigures::active));
  const bool none = std::ranges::any_of(layers, [](const auto& l) { return l.active == 0; });
  if (!finite || negative)
    diagnosis.add("gate sums", CheckState::fault,
                  finite ? "a gate is negative" : "a gate is not finite",
                  "the routers' weights are damaged: make the model again");
  else if (none)
    diagnosis.add("gate sums", CheckState::warning,
                  "a layer sends no token to any expert: " + finding,
                  "no gradient reaches such a layer; start from another router");
  else
    diagnosis.add("gate sums", CheckState::ok, finding);
}

/// The recipe keys of the balancers that even out the experts' loads; "" without such a balancer.
std::string evening_keys(const ResolvedRouter& router) {
  std::string keys;
  for (const auto& balancer : router.balancers)
    if (balancer_registry().at(balancer).traits.evens_loads)
      for (const auto& option : coefficients(balancer))
        keys += fmt::format("{}model.router.{}.{}", keys.empty() ? "" : ", ", balancer, option);
  return keys;
}

/// Whether the tokens suffice to judge a layer. With fewer tokens some experts get none by chance.
bool enough_tokens(const ModelConfig& config, const LayerFigures& layer, std::int64_t tokens) {
  constexpr double kEnough = 10;  // assignments per expert when even
  return layer.active * static_cast<double>(tokens) >=
         kEnough * static_cast<double>(config.total_experts());
}

bool mostly_idle(const ModelConfig& config, const LayerFigures& layer) {
  return 2 * layer.nearly_idle > config.total_experts();
}

void judge_balance(const ModelConfig& config, Diagnosis& diagnosis) {
  const auto& layers = diagnosis.layers;
  const auto experts = static_cast<double>(config.total_experts());
  const std::string finding = fmt::format(
      "entropy {} nats of {:.3g}, logit deviation {}; the busiest expert has {} of a layer's "
      "assignments ({:.3g} when even)",
      range(layers, &LayerFigures::entropy), std::log(experts),
      range(layers, &LayerFigures::logit_sd), range(layers, &LayerFigures::largest_share),
      1 / experts);
  // A layer cannot collapse if each token takes most of the experts.
  const auto collapsed = [&](const LayerFigures& layer) {
    return layer.active > 0 && layer.active < 0.75 * experts &&
           layer.load_experts <= kCollapsedLoad * layer.active;
  };
  const ResolvedRouter router = resolve(config.router);
  const auto bad = std::ranges::count_if(layers, collapsed);
  const std::string same = fmt::format(
      "in {} of {} MoE layers nearly every token takes the same experts", bad, layers.size());
  const std::string keys = evening_keys(router);
  if (bad == 0)
    diagnosis.add("entropy and balance", CheckState::ok, finding);
  else if (router.traits.noisy)
    diagnosis.add("entropy and balance", CheckState::ok,
                  fmt::format("{}, until the noise of training spreads them; {}", same, finding));
  else
    diagnosis.add("entropy and balance", CheckState::warning, fmt::format("{}; {}", same, finding),
                  keys.empty()
                      ? "without balancing such a layer stays a dense one: add load-balance, "
                        "or start from another router"
                      : "balancing has to spread them: start from another router, or train "
                        "with a higher " +
                            keys);
}

/// Reports experts without a token, and whether training can reach them.
void judge_dead(const ModelConfig& config, std::int64_t tokens, Diagnosis& diagnosis) {
  const auto& layers = diagnosis.layers;
  std::int64_t idle = 0;
  for (const LayerFigures& layer : layers) idle += layer.idle;
  if (idle == 0)
    return diagnosis.add("dead experts", CheckState::ok,
                         fmt::format("every expert has some of {} tokens", tokens));
  const ResolvedRouter router = resolve(config.router);
  const std::string keys = evening_keys(router);
  const std::string idle_text =
      fmt::format("{} of {} experts have none of {} tokens", idle,
                  config.total_experts() * static_cast<std::int64_t>(layers.size()), tokens);
  if (router.traits.variable_active)  // no gradient at all reaches an expert that is off
    diagnosis.add(
        "dead experts", CheckState::warning, idle_text,
        "an expert whose logit is below zero for every token does not learn: start from "
        "another router, or one without its keys' bias (`penstock upcycle --key-bias drop`)");
  else if (router.traits.noisy)
    diagnosis.add("dead experts", CheckState::ok,
                  idle_text + ", until the noise of training reaches them");
  else if (keys.empty())
    diagnosis.add("dead experts", CheckState::warning, idle_text,
                  "without balancing they stay so: add load-balance, or start from another "
                  "router");
  else if (std::ranges::any_of(layers, [&](const auto& layer) {
             return enough_tokens(config, layer, tokens) && mostly_idle(config, layer);
           }))
    diagnosis.add("dead experts", CheckState::warning, idle_text,
                  "only balancing can reach them: start from another router, or train with "
                  "a higher " +
                      keys);
  else
    diagnosis.add("dead experts", CheckState::ok,
                  idle_text + ", fewer than half of any layer's, and balancing reaches them");
}

/// Warns if most experts of a layer are nearly idle, even if balancing can reach them later.
void judge_idle(const ModelConfig& config, std::int64_t tokens, Diagnosis& diagnosis) {
  const std::int64_t experts = config.total_experts();
  std::int64_t nearly = 0, worst = 0, layers = 0, judged = 0;
  for (const LayerFigures& layer : diagnosis.layers) {
    if (!enough_tokens(config, layer, tokens)) continue;
    ++judged;
    nearly += layer.nearly_idle;
    worst = std::max(worst, layer.nearly_idle);
    layers += mostly_idle(config, layer);
  }
  if (judged == 0) return;
  const std::string finding = fmt::format(
      "{} of {} experts get no or under a tenth of an even share of tokens, at most {} of a "
      "layer's {}",
      nearly, experts * judged, worst, experts);
  if (layers == 0) return diagnosis.add("idle experts", CheckState::ok, finding);
  const ResolvedRouter router = resolve(config.router);
  if (router.traits.noisy)  // a noisy router starts with equal logits
    return diagnosis.add("idle experts", CheckState::ok,
                         finding + ", until the noise of training spreads them");
  const std::string keys = evening_keys(router);
  diagnosis.add(
      "idle experts", CheckState::warning,
      fmt::format("most experts idle in {} of {} MoE layers: {}", layers, diagnosis.layers.size(),
                  finding),
      fmt::format("start from another router (a scale of the logits changes no choice), or {}",
                  keys.empty() ? "add load-balance to model.router.balancers"
                               : "train with a higher " + keys));
}

}  // namespace

void check_routing(LanguageModel& model, const at::Tensor& windows, Diagnosis& diagnosis) {
  const EvaluationMode measuring(model);
  std::map<std::int64_t, Seen> seen;
  for (std::int64_t row = 0; row < windows.size(0); ++row)
    model.forward(
        {.tokens = windows.slice(0, row, row + 1)}, {},
        [&](std::int64_t layer, const RoutingResult& result) { add(result, seen[layer]); });
  const ModelConfig& config = model.config();
  const ResolvedRouter router = resolve(config.router);
  const std::vector<MoeLayer*>& layers = model.moe_layers();
  const std::vector<std::int64_t> numbers = config.moe_layer_indices();
  std::int64_t tied = 0;
  double fold = 0;
  for (const auto& [index, view] : seen) {
    MoeLayer& layer = *layers.at(static_cast<std::size_t>(index));
    diagnosis.layers.push_back(figures_of(view, layer, router, index));
    diagnosis.layers.back().model_layer = numbers.at(static_cast<std::size_t>(index));
    fold = std::max(fold, diagnosis.layers.back().fold_error);
    if (!router.traits.no_logits) tied += tied_pairs(at::cat(view.logits), config.moe.granularity);
  }
  if (router.traits.merges) return;
  judge_gates(seen, diagnosis);
  if (router.traits.no_logits) return;
  judge_balance(config, diagnosis);
  judge_dead(config, windows.numel(), diagnosis);
  judge_idle(config, windows.numel(), diagnosis);
  if (tied == 0)
    diagnosis.add("tied experts", CheckState::ok, "no two experts have the same logits");
  else if (router.traits.noisy)
    diagnosis.add("tied experts", CheckState::ok,
                  fmt::format("{} pairs of experts have the same logits until the noise of "
                              "training parts them",
                              tied));
  else
    diagnosis.add("tied experts", CheckState::fault,
                  fmt::format("{} pairs of experts have the same logits for every token", tied),
                  "experts that are chosen together never come apart: give them rows or keys of "
                  "their own");
  if (!router.traits.foldable)
    diagnosis.add("folded router", CheckState::ok,
                  "this router is no one matrix: it stays as it is, and formats that know plain "
                  "routers alone cannot hold it");
  else
    diagnosis.add("folded router", fold <= kFoldTolerance ? CheckState::ok : CheckState::fault,
                  fmt::format("folded logits differ by {:.2g} of the largest", fold),
                  fold <= kFoldTolerance ? "" : "do not export this model; report the router");
}

}  // namespace penstock::doctor
