// Evaluates a model at given numbers of experts per token: HyperRouter's Figure 1 and Table 1. Each
// evaluation passes the number to the router and leaves the model unchanged.
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

/// Parses "1,2,4". Throws Error if the text is not a list of whole numbers separated by commas, and
/// for a number that occurs twice.
std::vector<std::int64_t> parse_k_values(const std::string& text);

/// Throws a one-line Error if why_no_k gives a reason, or if the model does not take a value.
void check_k_values(const ModelConfig& config, std::span<const std::int64_t> values);

struct KPoint {
  KFigures figures;
  Evaluation evaluation;
};

/// Evaluates the model with k experts per token in every MoE layer, instead of the k of its
/// training or schedule. The gates and the capacity are those of a selector with this k: the
/// softmax is before or after the choice, and the capacity is a share of this k. With k = 0
/// the model keeps its own number of experts; this also works for models without k. One batch runs
/// before time and memory are measured. FLOPs are nominal_forward_flops of a whole batch with full
/// memory and k active experts, or the counted number of active experts if k = 0.
/// Throws Error if the model does not take k.
KPoint evaluate_at_k(LanguageModel& model, const Corpus& corpus, EvaluateOptions options,
                     std::int64_t k);

struct ByK {
  Evaluation own;                 ///< with the model's own number of experts
  std::vector<KFigures> figures;  ///< one for each of `values`, in their order
};

/// Calls evaluate_at_k for each of `values`, and evaluates the model with its own number of
/// experts. If that number is among the values, the model is measured once with it.
/// @param progress  may be null; k is 0 for the model's own number
ByK evaluate_by_k(
    LanguageModel& model, const Corpus& corpus, EvaluateOptions options,
    std::span<const std::int64_t> values,
    const std::function<void(std::int64_t k, double done, const LossTotals& sofar)>& progress = {});

/// The mean number of experts per token and MoE layer that an evaluation counted. It is the nominal
/// number if the router blends experts, and 0 for a dense model.
double counted_active(const ModelConfig& config, const RoutingTotals& routing);

/// Useful forward FLOPs per token of an evaluation with `active` experts per token.
double forward_flops_per_token(const ModelConfig& config, const EvaluateOptions& options,
                               double active);

}  // namespace penstock
