// Evaluates a model at given mean numbers of experts per token, for routers in which the sign of a
// logit switches its expert on or off. Each evaluation shifts the logits and leaves the model
// unchanged. by_k.h sets the number of experts for models in which each token has k experts.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "penstock/eval/by_k.h"

namespace penstock {

/// Parses "0.5,1,2". Throws Error if the text is not a list of positive numbers separated by
/// commas, and for a number that occurs twice.
std::vector<double> parse_active_values(const std::string& text);

/// Throws a one-line Error if why_no_shift gives a reason, or if a value is not in (0, E].
void check_active_values(const ModelConfig& config, std::span<const double> values);

struct ActiveFigures {
  double wanted = 0;              ///< the mean experts per token and MoE layer to reach
  double reached = 0;             ///< the mean over the measured tokens
  double shift = 0;               ///< added to every logit of every layer
  std::int64_t shift_tokens = 0;  ///< tokens on which the shift was found
  KFigures figures;               ///< k is 0; the FLOPs are for the reached number of experts
};

/// {"active_experts", "reached", "shift", and the keys of to_json(KFigures) without "k"}.
nlohmann::ordered_json to_json(const ActiveFigures& figures);

/// The most tokens that are used to find a shift.
inline constexpr std::int64_t kShiftTokens = 16384;

struct FoundShift {
  double shift = 0;
  std::int64_t tokens = 0;  ///< tokens on which the shift was found
};

/// Finds the shift that gives a mean of `active` experts per token. It uses at most kShiftTokens of
/// the tokens that `options` selects, in evenly spaced windows. Each step of the bisection
/// evaluates the whole model, because the shift of a layer also changes the logits of the later
/// layers. The search ends at a relative error of 0.5 %, or after 40 halvings: with few tokens the
/// mean changes in steps. Throws Error if no shift from -2^10 to 2^10 gives the mean.
FoundShift shift_for(LanguageModel& model, const Corpus& corpus, EvaluateOptions options,
                     double active);

/// Finds a shift for each value and measures quality, cost and experts with it. The results are in
/// the order of the values.
/// @param progress  may be null; called during the measurements, not during the searches
std::vector<ActiveFigures> evaluate_by_active(
    LanguageModel& model, const Corpus& corpus, EvaluateOptions options,
    std::span<const double> values,
    const std::function<void(double active, double done, const LossTotals& sofar)>& progress = {});

}  // namespace penstock
