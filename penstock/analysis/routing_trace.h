// Records each router's inputs, logits and gates for every token, so that another implementation of
// the same model can be compared with this one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "penstock/models/language_model.h"
#include "penstock/models/routing_choice.h"

namespace penstock::analysis {

/// Runs the tokens as one sequence from position 0, without gradient, in evaluation mode. Returns
/// `tokens` [T] i64, and for each MoE layer the tensors below, in the model's type. N is the
/// layer's index among all layers.
///   layers.N.router_input [T, d]: the normalised rows that the router and the experts read
///   layers.N.logits [T, E]: the scorer's logits, if the router scores tokens
///   layers.N.gates [T, E]: the weight of each expert's output, 0 if the token does not use it
/// Throws Error for a choice that the model does not take, for a dense model, for a model that
/// blends experts by segments, for an empty list of tokens, for an id outside the vocabulary, and
/// for more tokens than the model's context.
std::map<std::string, at::Tensor> trace_routing(LanguageModel& model,
                                                const std::vector<std::int64_t>& tokens,
                                                const RoutingChoice& choice = {});

}  // namespace penstock::analysis
