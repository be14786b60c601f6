// Checks the values, finds each shift by bisection and measures the model.
#include "penstock/eval/by_active.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/base/number_list.h"

namespace penstock {
namespace {

constexpr double kTolerance = 0.005;  // relative error of the mean number of experts
constexpr double kFarthest = 1024;    // largest shift
constexpr int kHalvings = 40;

}  // namespace

std::vector<double> parse_active_values(const std::string& text) {
  return parse_number_list<double>(text, "options.active_experts",
                                   "positive numbers with commas between, for example 0.5,1,2",
                                   [](double value) { return value > 0 && std::isfinite(value); });
}

void check_active_values(const ModelConfig& config, std::span<const double> values) {
  const std::string reason = why_no_shift(config);
  PENSTOCK_CHECK(reason.empty(),
                 "options.active_experts: no shift of the logits sets the mean number of experts "
                 "per token, for ",
                 reason);
  for (const double value : values)
    PENSTOCK_CHECK(value > 0 && value <= static_cast<double>(config.total_experts()),
                   "options.active_experts: ", value, " is not above 0 and at most ",
                   config.total_experts(), ", the number of experts");
}

nlohmann::ordered_json to_json(const ActiveFigures& figures) {
  nlohmann::ordered_json out = {
      {"active_experts", figures.wanted}, {"reached", figures.reached}, {"shift", figures.shift}};
  nlohmann::ordered_json rest = to_json(figures.figures);
  rest.erase("k");
  out.update(rest);
  return out;
}

FoundShift shift_for(LanguageModel& model, const Corpus& corpus, EvaluateOptions options,
                     double active) {
  options.max_tokens =
      options.max_tokens > 0 ? std::min(options.max_tokens, kShiftTokens) : kShiftTokens;
  options.progress = nullptr;
  std::int64_t tokens = 0;
  const auto off = [&](double shift) {
    options.context.logit_shift = shift;
    const Evaluation found = evaluate(model, corpus, options);
    tokens = found.total.tokens;
    return counted_active(model.config(), found.routing) / active - 1;
  };
  double low = 0, high = 0, error = off(0);
  if (std::abs(error) <= kTolerance) return {0, tokens};
  for (double reach = 0.125; error > 0 && reach <= kFarthest; reach *= 2) error = off(low = -reach);
  if (low == 0)
    for (double reach = 0.125; error < 0 && reach <= kFarthest; reach *= 2)
      error = off(high = reach);
  PENSTOCK_CHECK(low < 0 ? error <= kTolerance : error >= -kTolerance, "no shift of the logits by ",
                 kFarthest, " or less gives a mean of ", active, " experts per token");
  for (int i = 0; i < kHalvings && std::abs(error) > kTolerance; ++i) {
    const double middle = (low + high) / 2;
    error = off(middle);
    (error > 0 ? high : low) = middle;
    if (std::abs(error) <= kTolerance) return {middle, tokens};
  }
  return {low < 0 && high == 0 ? low : high, tokens};
}

std::vector<ActiveFigures> evaluate_by_active(
    LanguageModel& model, const Corpus& corpus, EvaluateOptions options,
    std::span<const double> values,
    const std::function<void(double active, double done, const LossTotals& sofar)>& progress) {
  if (!values.empty()) check_active_values(model.config(), values);
  std::vector<ActiveFigures> out;
  for (const double value : values) {
    if (progress)
      options.progress = [&progress, value](double done, const LossTotals& sofar) {
        progress(value, done, sofar);
      };
    const FoundShift found = shift_for(model, corpus, options, value);
    options.context.logit_shift = found.shift;
    const KPoint point = evaluate_at_k(model, corpus, options, 0);
    out.push_back({.wanted = value,
                   .reached = counted_active(model.config(), point.evaluation.routing),
                   .shift = found.shift,
                   .shift_tokens = found.tokens,
                   .figures = point.figures});
  }
  return out;
}

}  // namespace penstock
