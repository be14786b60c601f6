#include "penstock/eval/perplexity.h"

#include <torch/types.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "penstock/base/error.h"
#include "penstock/eval/passes.h"
#include "penstock/models/batch_tensors.h"
#include "penstock/models/evaluation_mode.h"

namespace penstock {

double LossTotals::loss() const { return tokens > 0 ? nats / static_cast<double>(tokens) : 0; }
double LossTotals::perplexity() const { return std::exp(loss()); }
double LossTotals::bits_per_byte() const {
  return bytes > 0 ? nats / std::numbers::ln2 / static_cast<double>(bytes) : 0;
}

namespace {

/// Adds the assignments of one layer's plan, in total and by the domain of the token.
void count_routing(std::int64_t layer, const RoutingResult& result,
                   std::span<const std::int32_t> domain, const std::vector<std::string>& names,
                   Evaluation& out) {
  const Plan& plan = result.plan;
  if (plan.merges()) return;
  const at::Tensor token = plan.token.to(at::kCPU).contiguous(),
                   expert = plan.expert.to(at::kCPU).contiguous();
  const auto* tokens = token.data_ptr<std::int64_t>();
  const auto* experts = expert.data_ptr<std::int64_t>();
  const auto row = [&](RoutingTotals& totals) -> std::vector<double>& {
    if (totals.assignments.size() <= static_cast<std::size_t>(layer))
      totals.assignments.resize(static_cast<std::size_t>(layer) + 1);
    auto& counts = totals.assignments[static_cast<std::size_t>(layer)];
    counts.resize(static_cast<std::size_t>(plan.experts));
    return counts;
  };
  std::vector<std::vector<double>*> by_domain;
  for (const auto& name : names) by_domain.push_back(&row(out.routing_by_domain[name]));
  auto& all = row(out.routing);
  for (std::int64_t a = 0; a < token.size(0); ++a) {
    const auto e = static_cast<std::size_t>(experts[a]);
    all[e] += 1;
    (*by_domain[static_cast<std::size_t>(domain[static_cast<std::size_t>(tokens[a])])])[e] += 1;
  }
}

nlohmann::ordered_json totals_json(const LossTotals& totals) {
  return {{"loss", totals.loss()},
          {"perplexity", totals.perplexity()},
          {"bits_per_byte", totals.bits_per_byte()},
          {"tokens", totals.tokens}};
}

std::vector<std::vector<double>> load(const RoutingTotals& totals) {
  auto out = totals.assignments;
  for (auto& layer : out)
    for (double& value : layer) value /= std::max(1.0, static_cast<double>(totals.tokens));
  return out;
}

std::vector<double> active(const std::vector<std::vector<double>>& load) {
  std::vector<double> out;
  for (const auto& layer : load) {
    double sum = 0;
    for (const double value : layer) sum += value;
    out.push_back(sum);
  }
  return out;
}

}  // namespace

EvaluationBatches::EvaluationBatches(const Corpus& corpus, const EvaluateOptions& options) {
  PENSTOCK_CHECK(options.streams == 0 || !options.isolate_documents,
                 "documents cannot be isolated where memory is carried along streams");
  if (options.streams > 0)
    streams_.emplace(corpus, options.split,
                     StreamOptions{.sequence_length = options.sequence_length,
                                   .batch_sequences = options.batch_sequences,
                                   .streams = options.streams,
                                   .max_tokens = options.max_tokens});
  else
    windows_.emplace(corpus, options.split,
                     EvaluationOptions{.sequence_length = options.sequence_length,
                                       .batch_sequences = options.batch_sequences,
                                       .max_tokens = options.max_tokens,
                                       .isolate_documents = options.isolate_documents});
}

std::int64_t EvaluationBatches::size() const {
  return streams_ ? streams_->batches() : windows_->batches();
}

Batch EvaluationBatches::at(std::int64_t index) const {
  return streams_ ? streams_->batch(index) : windows_->batch(index);
}

Evaluation evaluate(LanguageModel& model, const Corpus& corpus, const EvaluateOptions& options) {
  const EvaluationMode measuring(model);
  const EvaluationBatches batches(corpus, options);
  const auto& names = corpus.domains();
  const auto token_bytes = corpus.token_bytes();
  const at::Device device = model.parameters().front().device();
  // Windows of a merging router are padded to whole segments. Streams are not, because padding
  // would get into the memory.
  const std::int64_t length = options.sequence_length,
                     whole = options.streams > 0 ? length : whole_segments(model.config(), length);
  Evaluation out;
  ModelMemory memory;
  for (std::int64_t index = 0; index < batches.size(); ++index) {
    const Batch batch = batches.at(index);
    BatchTensors tensors = to_tensors(batch, device);
    if (!batch.fresh) tensors.input.memory = std::move(memory);
    tensors.input.memory_length = options.memory_length;
    ScoredPass pass =
        score_pass(model, std::move(tensors.input), tensors.targets, whole, options.context,
                   [&](std::int64_t layer, const RoutingResult& routing) {
                     count_routing(layer, routing, batch.domains, names, out);
                     if (options.routing_tap) options.routing_tap(layer, routing);
                   });
    memory = std::move(pass.memory);
    const auto* nats = pass.nats.data_ptr<double>();
    if (options.batch_tap) options.batch_tap(batch, {nats, batch.targets.size()});
    for (std::size_t i = 0; i < batch.targets.size(); ++i) {
      const auto& name = names[static_cast<std::size_t>(batch.domains[i])];
      const std::int64_t bytes = token_bytes[static_cast<std::size_t>(batch.targets[i])];
      for (LossTotals* totals : {&out.total, &out.by_domain[name]}) {
        totals->nats += nats[i];
        totals->tokens += 1;
        totals->bytes += bytes;
      }
      out.routing.tokens += 1;
      out.routing_by_domain[name].tokens += 1;
    }
    if (options.progress)
      options.progress(static_cast<double>(index + 1) / static_cast<double>(batches.size()),
                       out.total);
  }
  return out;
}

nlohmann::ordered_json to_json(const Evaluation& evaluation) {
  nlohmann::ordered_json out = totals_json(evaluation.total);
  out["by_domain"] = nlohmann::ordered_json::object();
  for (const auto& [name, totals] : evaluation.by_domain)
    out["by_domain"][name] = totals_json(totals);
  if (evaluation.routing.assignments.empty()) return out;
  out["load"] = load(evaluation.routing);
  out["active_by_layer"] = active(load(evaluation.routing));
  for (const auto& [name, totals] : evaluation.routing_by_domain) {
    if (totals.tokens == 0) continue;
    out["load_by_domain"][name] = load(totals);
    out["active_by_layer_domain"][name] = active(load(totals));
  }
  return out;
}

}  // namespace penstock
