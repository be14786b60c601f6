// Scores requests that belong to no task. Each request is a JSON object with texts or tokens to
// score. The caller decides what the scores mean.
#pragma once

#include <span>
#include <vector>

#include "penstock/tasks/rows.h"
#include "penstock/tasks/scoring.h"

namespace penstock::tasks {

/// The tokens of a request: {"context": TEXT, "continuation": TEXT}, encoded as in lm-eval, or
/// {"ids": [ID, ...], "scored_from": N}, truncated as in lm-eval. Throws Error with the row's file
/// and line for other keys or values, and as RequestEncoder::encode() does.
TokenRequest read_request(const RequestEncoder& encoder, const SourceRow& row);

/// The requests' scores, in order. Consecutive requests that share a prefix of at least half of
/// their tokens share its computation.
std::vector<RequestScore> score_requests(LanguageModel& model,
                                         std::span<const TokenRequest> requests,
                                         const ScoringOptions& options = {});

/// A scored request as JSON: "ids", "scored_from", "loglikelihood" and "greedy".
void add_score(Row& to, const TokenRequest& request, const RequestScore& score);

}  // namespace penstock::tasks
