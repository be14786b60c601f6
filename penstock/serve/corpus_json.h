// JSON for the page: the experts to which the tokens and domains of a corpus are routed.
#pragma once

#include <string>

#include "penstock/analysis/token_experts.h"

namespace penstock::serve {

/// The body of GET /v1/corpus. For each layer and expert it lists the tokens with the largest share
/// of their occurrences routed to the expert, and the tokens with the largest share of the expert's
/// load. It also lists the most frequent tokens with their experts, and for each domain the number
/// of tokens, the loss and the load.
/// @param corpus, split  the names that the page shows
std::string corpus_json(const analysis::CorpusExperts& counted, const Tokenizer& tokenizer,
                        const std::string& corpus, const std::string& split);

}  // namespace penstock::serve
