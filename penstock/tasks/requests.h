// Requests from outside, a JSON object each: texts or tokens to score, and the answers. No task:
// what the scores are for is the asker's business.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "penstock/tasks/rows.h"
#include "penstock/tasks/scoring.h"

namespace penstock::tasks {

/// The tokens of a request: {"context": TEXT, "continuation": TEXT}, encoded as lm-eval does, or
/// {"ids": [ID, ...], "scored_from": N}, cut as there. Throws Error with the row's file and line
/// for other keys or values, and as RequestEncoder::encode does.
TokenRequest read_request(const RequestEncoder& encoder, const SourceRow& row);

/// Their scores, in order. Requests one behind another that begin alike for half of their tokens or
/// more share what is computed.
std::vector<RequestScore> score_requests(LanguageModel& model,
                                         std::span<const TokenRequest> requests,
                                         const ScoringOptions& options = {});

/// "ids", "scored_from", "loglikelihood" and "greedy" of a scored request.
void add_score(Row& to, const TokenRequest& request, const RequestScore& score);

}  // namespace penstock::tasks
