// The answer to POST /v1/routing: the experts, gates and logits of each token of a text.
#pragma once

#include <chrono>
#include <cstdint>

#include "penstock/serve/answer_room.h"
#include "penstock/serve/reply.h"
#include "penstock/serve/request.h"
#include "penstock/serve/served_model.h"

namespace penstock::serve {

/// The experts, the gates and, if requested, the logits of each token in each MoE layer. One
/// forward pass over all tokens computes them. The answer takes 4 bytes per gate and logit until it
/// is sent; its text is written in pieces.
/// @param most  the largest number of tokens
/// @param room  counts gates and logits; outlives the reply
/// Throws RequestError for a request that the model does not accept, and 429 if there is no room.
Reply routing_answer(const ServedModel& model, const RoutingRequest& request, std::int64_t most,
                     AnswerRoom& room, std::chrono::steady_clock::time_point deadline);

}  // namespace penstock::serve
