// A model measured at numbers of experts per token of one's choice: HyperRouter's Figure 1 and
// Table 1. The model stays as it is; the router is told in passing.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "penstock/eval/k_figures.h"
#include "penstock/eval/perplexity.h"
#include "penstock/models/routing_choice.h"

namespace penstock {

/// "1,2,4" as numbers. Throws Error for anything but whole numbers with commas between, and for one
/// that comes twice.
std::vector<std::int64_t> parse_k_values(const std::string& text);

/// Throws Error, in one line, where why_no_k has a reason or a value is none that the model takes.
void check_k_values(const ModelConfig& config, std::span<const std::int64_t> values);

struct KPoint {
  KFigures figures;
  Evaluation evaluation;
};

/// Evaluates with k experts per token in every MoE layer, whatever k the model was trained with or
/// its schedule had reached: the gates are those of a selector with that k (softmax before or after
/// the choice, capacity in shares of that k). k = 0 leaves the model its own number, for models
/// that have no k too. What is measured of time and memory comes after a batch that is not counted.
/// FLOPs are nominal_forward_flops of a whole batch with its memory filled; where the experts per
/// token are not k, with those that were counted.
/// Throws Error where the model does not take k.
KPoint evaluate_at_k(LanguageModel& model, const Corpus& corpus, EvaluateOptions options,
                     std::int64_t k);

struct ByK {
  Evaluation own;                 ///< with the model's own number of experts
  std::vector<KFigures> figures;  ///< of each number that was asked for
};

/// evaluate_at_k for each of `values`, and the model as it is, which is not measured twice where
/// its own number is among them. @param progress  may be null; k is 0 for the model as it is
ByK evaluate_by_k(
    LanguageModel& model, const Corpus& corpus, EvaluateOptions options,
    std::span<const std::int64_t> values,
    const std::function<void(std::int64_t k, double done, const LossTotals& sofar)>& progress = {});

/// Mean experts per token and MoE layer that an evaluation counted; the nominal number where a plan
/// blends experts, 0 for a dense model.
double counted_active(const ModelConfig& config, const RoutingTotals& routing);

/// Useful forward FLOPs per token of such an evaluation with so many active experts.
double forward_flops_per_token(const ModelConfig& config, const EvaluateOptions& options,
                               double active);

}  // namespace penstock
