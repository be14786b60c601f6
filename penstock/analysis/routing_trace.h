// What every router of a model sees and decides, token by token, so that another implementation of
// the same model can be compared with it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "penstock/models/language_model.h"
#include "penstock/models/routing_choice.h"

namespace penstock::analysis {

/// Runs the tokens as one sequence from position 0, without gradient, in evaluation mode, and gives
/// for each MoE layer, N being its number among all layers:
///   layers.N.router_input [T, d]: the normed rows that router and experts read
///   layers.N.logits [T, E]: the scorer's, where tokens are scored
///   layers.N.gates [T, E]: the weight of each expert's output, 0 where the token does not pass it
/// and `tokens` [T] i64. All else has the model's type.
/// Throws Error for a choice that the model does not take, for a dense model, for one that blends
/// experts by segments, for no tokens, an id outside the vocabulary, and more tokens than the
/// model's context.
std::map<std::string, at::Tensor> trace_routing(LanguageModel& model,
                                                const std::vector<std::int64_t>& tokens,
                                                const RoutingChoice& choice = {});

}  // namespace penstock::analysis
