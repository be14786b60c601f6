#include "penstock/analysis/token_experts.h"

#include <torch/types.h>

#include <limits>

#include "penstock/analysis/domain_routing.h"
#include "penstock/analysis/refusals.h"
#include "penstock/base/error.h"
#include "penstock/eval/perplexity.h"

namespace penstock::analysis {
namespace {

std::vector<std::int64_t> numbers(const at::Tensor& values) {
  const at::Tensor v = values.to(at::kCPU, at::kLong).contiguous();
  return {v.data_ptr<std::int64_t>(), v.data_ptr<std::int64_t>() + v.numel()};
}

}  // namespace

TokenCounter::TokenCounter(const ModelConfig& config, std::function<void(const TokenPlace&)> place)
    : layers_(config.moe_layers()), place_(std::move(place)) {
  const auto vocab = static_cast<std::size_t>(config.vocab);
  pending_.resize(static_cast<std::size_t>(layers_));
  out_.experts = config.total_experts();
  out_.count.resize(vocab);
  out_.active.resize(vocab);
  out_.assigned.resize(vocab);
}

void TokenCounter::routed(std::int64_t layer, const Plan& plan) {
  PENSTOCK_ASSERT(!plan.merges(), "refused before");
  pending_[static_cast<std::size_t>(layer)] = {numbers(plan.token), numbers(plan.expert)};
}

void TokenCounter::count_layer(std::size_t layer, const Batch& batch, std::vector<double>& active) {
  const auto& [token, expert] = pending_[layer];
  const std::size_t begin = layer * static_cast<std::size_t>(out_.experts);
  const auto layers = static_cast<std::size_t>(layers_);
  for (std::size_t a = 0; a < token.size(); ++a) {
    const auto place = static_cast<std::size_t>(token[a]);
    const auto id = static_cast<std::size_t>(batch.inputs[place]);
    active[place * layers + layer] += 1;
    out_.assigned[id][begin + static_cast<std::size_t>(expert[a])] += 1;
  }
}

void TokenCounter::scored(const Batch& batch, std::span<const double> nats) {
  const auto layers = static_cast<std::size_t>(layers_), places = batch.inputs.size(),
             length = static_cast<std::size_t>(batch.length);
  for (const std::int64_t id : batch.inputs) {
    auto& assigned = out_.assigned[static_cast<std::size_t>(id)];
    if (assigned.empty()) assigned.resize(layers * static_cast<std::size_t>(out_.experts));
    out_.count[static_cast<std::size_t>(id)] += 1;
  }
  std::vector<double> active(places * layers);  // [places, L]
  for (std::size_t layer = 0; layer < layers; ++layer) count_layer(layer, batch, active);
  if (batch.fresh)
    row_ends_.assign(static_cast<std::size_t>(batch.sequences),
                     std::numeric_limits<double>::quiet_NaN());
  for (std::size_t i = 0; i < places; ++i) {
    const std::span<const double> here(active.data() + i * layers, layers);
    double sum = 0;
    for (const double one : here) sum += one;
    out_.active[static_cast<std::size_t>(batch.inputs[i])] += sum / static_cast<double>(layers);
    // The token that is read at a position was the target of the previous position.
    if (place_)
      place_({.id = batch.inputs[i],
              .surprisal = i % length > 0 ? nats[i - 1] : row_ends_[i / length],
              .active = here});
  }
  for (std::size_t row = 0; row < row_ends_.size(); ++row)
    row_ends_[row] = nats[(row + 1) * length - 1];
  out_.tokens += static_cast<std::int64_t>(places);
}

CorpusExperts count_token_experts(LanguageModel& model, const Corpus& corpus,
                                  EvaluateOptions reading) {
  const ModelConfig& config = model.config();
  const Refusals refused = refusals(config);
  PENSTOCK_CHECK(refused.load.empty(), refused.load);
  TokenCounter counter(config);
  reading.routing_tap = [&](std::int64_t layer, const RoutingResult& result) {
    counter.routed(layer, result.plan);
  };
  reading.batch_tap = [&](const Batch& batch, std::span<const double> nats) {
    counter.scored(batch, nats);
  };
  const Evaluation evaluation = evaluate(model, corpus, reading);
  return {.tokens = counter.counted(), .domains = domain_routing(evaluation)};
}

}  // namespace penstock::analysis
