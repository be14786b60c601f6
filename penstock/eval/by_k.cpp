// Checks the values of k, measures the model and computes its cost.
#include "penstock/eval/by_k.h"

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/base/number_list.h"
#include "penstock/base/stopwatch.h"
#include "penstock/models/counts/flops.h"
#include "penstock/ops/machine/machine.h"

namespace penstock {
namespace {

std::int64_t rows_of(const EvaluateOptions& options) {
  return options.streams > 0 ? std::min(options.streams, options.batch_sequences)
                             : options.batch_sequences;
}

}  // namespace

std::vector<std::int64_t> parse_k_values(const std::string& text) {
  return parse_number_list<std::int64_t>(text, "options.k",
                                         "whole numbers with commas between, for example 1,2,4",
                                         [](std::int64_t) { return true; });
}

void check_k_values(const ModelConfig& config, std::span<const std::int64_t> values) {
  const std::string reason = why_no_k(config);
  PENSTOCK_CHECK(reason.empty(), "options.k: the number of experts per token cannot be set, for ",
                 reason);
  for (const std::int64_t k : values) {
    PENSTOCK_CHECK(takes_k(config, k), "options.k: ", k, " is not from 1 to ", most_k(config),
                   ", the most experts that a token may ask for");
  }
}

double counted_active(const ModelConfig& config, const RoutingTotals& routing) {
  if (config.moe_layers() == 0) return 0;
  if (routing.assignments.empty() || routing.tokens == 0) return config.active_experts();
  double sum = 0;
  for (const auto& layer : routing.assignments)
    for (const double count : layer) sum += count;
  return sum / static_cast<double>(routing.tokens * config.moe_layers());
}

double forward_flops_per_token(const ModelConfig& config, const EvaluateOptions& options,
                               double active) {
  const std::int64_t rows = rows_of(options), length = options.sequence_length;
  const std::int64_t own = config.xl.memory, memory = options.streams == 0 ? 0
                                                      : options.memory_length >= 0
                                                          ? options.memory_length
                                                          : own;
  return nominal_forward_flops(config, rows, length, memory, active) /
         static_cast<double>(rows * length);
}

KPoint evaluate_at_k(LanguageModel& model, const Corpus& corpus, EvaluateOptions options,
                     std::int64_t k) {
  const ModelConfig& config = model.config();
  if (k != 0) check_k_values(config, std::span(&k, 1));
  options.context.k = k;
  EvaluateOptions first = options;
  first.max_tokens = rows_of(options) * options.sequence_length;
  first.progress = nullptr;
  evaluate(model, corpus, first);
  ops::restart_peak_memory();
  const Stopwatch watch;
  KPoint out{.evaluation = evaluate(model, corpus, options)};
  const double seconds = watch.seconds();
  const LossTotals& total = out.evaluation.total;
  const double active =
      k > 0 ? static_cast<double>(k) : counted_active(config, out.evaluation.routing);
  out.figures = {.k = k,
                 .loss = total.loss(),
                 .perplexity = total.perplexity(),
                 .bits_per_byte = total.bits_per_byte(),
                 .flops_per_token = forward_flops_per_token(config, options, active),
                 .tokens_per_second = static_cast<double>(total.tokens) / seconds,
                 .peak_memory_bytes = ops::peak_resident_bytes()};
  return out;
}

ByK evaluate_by_k(
    LanguageModel& model, const Corpus& corpus, EvaluateOptions options,
    std::span<const std::int64_t> values,
    const std::function<void(std::int64_t k, double done, const LossTotals& sofar)>& progress) {
  const auto showing = [&](std::int64_t k) {
    if (progress)
      options.progress = [&progress, k](double done, const LossTotals& sofar) {
        progress(k, done, sofar);
      };
  };
  ByK out;
  bool has_own = false;
  for (const std::int64_t k : values) {
    showing(k);
    KPoint point = evaluate_at_k(model, corpus, options, k);
    out.figures.push_back(point.figures);
    if (static_cast<double>(k) != model.config().active_experts()) continue;
    out.own = std::move(point.evaluation);
    has_own = true;
  }
  showing(0);
  if (!has_own) out.own = evaluate(model, corpus, options);
  return out;
}

}  // namespace penstock
