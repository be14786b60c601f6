#include "penstock/analysis/analysis.h"

#include <torch/types.h>

#include <algorithm>

#include "penstock/analysis/flips.h"
#include "penstock/base/error.h"

namespace penstock::analysis {
namespace {

std::vector<double> as_vector(const at::Tensor& row) {
  const at::Tensor values = row.to(at::kCPU, at::kDouble).contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

/// At most `count` evenly spaced rows of a layer's probe [N, d].
at::Tensor some_rows(const at::Tensor& rows, std::int64_t count) {
  const std::int64_t size = rows.size(0), every = std::max<std::int64_t>(1, size / count);
  return rows.slice(0, every - 1, c10::nullopt, every).slice(0, 0, count);
}

/// The values of k to measure; 0 for a router whose number of experts varies.
std::vector<std::int64_t> ks_of(const ModelConfig& config) {
  if (config.traits().gates == GateForm::relu) return {0};
  const std::int64_t experts = config.total_experts();
  std::vector<std::int64_t> out{static_cast<std::int64_t>(config.active_experts()), experts};
  for (std::int64_t k = 1; k < experts; k *= 2) out.push_back(k);
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

}  // namespace

std::vector<SampleToken> sample_tokens(const Probe& probe, std::int64_t count) {
  const auto size = std::ssize(probe.tokens);
  std::vector<SampleToken> out;
  for (std::int64_t i = 1; i <= std::min(count, size); ++i) {
    const std::int64_t n = i * size / std::min(count, size) - 1;
    SampleToken sample{.token = probe.tokens[static_cast<std::size_t>(n)],
                       .context = probe.contexts[static_cast<std::size_t>(n)]};
    for (const LayerProbe& layer : probe.layers) {
      if (!layer.logits.defined() || !layer.gates.defined()) return {};
      sample.probabilities.push_back(as_vector(layer.logits[n].to(at::kDouble).softmax(0)));
      sample.gates.push_back(as_vector(layer.gates[n]));
    }
    out.push_back(std::move(sample));
  }
  return out;
}

std::vector<std::vector<JacobianSummary>> jacobians(LanguageModel& model, const Probe& probe,
                                                    std::int64_t tokens) {
  const std::vector<MoeLayer*>& layers = model.moe_layers();
  std::vector<std::vector<JacobianSummary>> out;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const MoeOptions options = model.config().moe_options(static_cast<std::int64_t>(l));
    auto& by_k = out.emplace_back();
    for (const std::int64_t k : ks_of(model.config())) {
      RoutedLayer layer(options, *layers[l], k > 0 ? std::optional(k) : std::nullopt);
      by_k.push_back(summarize_jacobians(layer, some_rows(probe.layers[l].hidden, tokens)));
    }
  }
  return out;
}

std::vector<std::vector<LayerGrowth>> growth(const Analysis& analysis, std::int64_t tokens) {
  if (analysis.snapshots.size() < 2) return {};
  const GateForm form = analysis.config.traits().gates;
  PENSTOCK_ASSERT(form != GateForm::other, "jacobians are refused first");
  const Probe& probe = analysis.here().measures.probe;
  std::vector<std::vector<LayerGrowth>> out;
  for (std::size_t l = 0; l < probe.layers.size(); ++l) {
    auto& by_k = out.emplace_back();
    for (const std::int64_t k : ks_of(analysis.config)) {
      std::vector<Gating> routers;
      for (const Snapshot& snapshot : analysis.snapshots) {
        const LayerMeasures& layer = snapshot.measures.layers.at(l);
        routers.push_back(
            {.weight = layer.router, .bias = layer.router_bias, .form = form, .k = k});
      }
      by_k.push_back({.k = k,
                      .bound = k > 0 ? routers.front().rank_bound(k) : 0,
                      .growth = span_growth(routers, some_rows(probe.layers[l].hidden, tokens))});
    }
  }
  return out;
}

std::vector<std::vector<ExpertTokens>> expert_tokens(const TokenExperts& counted,
                                                     const Tokenizer& tokenizer, std::size_t most) {
  const auto experts = static_cast<std::size_t>(counted.experts);
  std::size_t layers = 0;
  for (const auto& assigned : counted.assigned)
    layers = std::max(layers, assigned.size() / experts);
  std::vector<std::vector<ExpertTokens>> out(layers);
  for (std::size_t l = 0; l < layers; ++l)
    for (std::size_t e = 0; e < experts; ++e)
      out[l].push_back({.commonest = commonest_tokens(counted, tokenizer, l, e, most),
                        .surest = surest_tokens(counted, tokenizer, l, e, most)});
  return out;
}

FlipsBetween flips_between(std::int64_t from, const at::Tensor& before, std::int64_t to,
                           const at::Tensor& after) {
  FlipsBetween out{.from = from, .to = to, .rate = flip_rate(before, after)};
  for (std::int64_t l = 0; l < before.size(0); ++l)
    out.layers.push_back(flip_rate(before[l], after[l]));
  return out;
}

}  // namespace penstock::analysis
