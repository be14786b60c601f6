// A model whose experts are switched on by the sign of their logits, measured at mean numbers of
// experts per token of one's choice. The model stays as it is; its logits are shifted in passing.
// Numbers of experts that a token asks for are by_k.h's.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "penstock/eval/by_k.h"

namespace penstock {

/// "0.5,1,2" as numbers. Throws Error for anything but positive numbers with commas between, and
/// for one that comes twice.
std::vector<double> parse_active_values(const std::string& text);

/// Throws Error, in one line, where why_no_shift has a reason or a value is not in 0..E.
void check_active_values(const ModelConfig& config, std::span<const double> values);

struct ActiveFigures {
  double wanted = 0;   ///< mean experts per token and MoE layer that were asked for
  double reached = 0;  ///< over what was measured
  double shift = 0;    ///< of every logit of every layer
  KFigures figures;    ///< without k; FLOPs are those of the experts that were reached
};

/// {"active_experts", "reached", "shift", and what to_json(KFigures) has but for k}.
nlohmann::ordered_json to_json(const ActiveFigures& figures);

/// Tokens, at most, on which a shift is looked for.
inline constexpr std::int64_t kShiftTokens = 16384;

/// The shift that gives a mean of `active` experts per token on kShiftTokens of what `options`
/// would measure, in evenly spaced windows, by bisection over whole passes: a layer's shift moves
/// the logits of the layers behind it. It ends within 0.5 %, or after 40 passes, where few tokens
/// count in jumps. Throws Error where none is found between -2^10 and 2^10.
double shift_for(LanguageModel& model, const Corpus& corpus, EvaluateOptions options,
                 double active);

/// Quality, cost and experts at the shift of each value, in their order.
/// @param progress  may be null; of the measurements, not of looking for shifts
std::vector<ActiveFigures> evaluate_by_active(
    LanguageModel& model, const Corpus& corpus, EvaluateOptions options,
    std::span<const double> values,
    const std::function<void(double active, double done, const LossTotals& sofar)>& progress = {});

}  // namespace penstock
