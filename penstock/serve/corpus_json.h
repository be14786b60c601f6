// The experts that a corpus's tokens and domains are sent to, as the page shows them.
#pragma once

#include <string>

#include "penstock/analysis/token_experts.h"

namespace penstock::serve {

/// The body of GET /v1/corpus. For each layer and expert it lists the tokens that the expert gets
/// most surely (share of the token's places) and the tokens that make up most of the expert's load
/// (share of the expert's places). It lists the most frequent tokens with their experts. For each
/// domain it has the tokens, the loss and the load.
/// @param corpus, split  the names that the page shows
std::string corpus_json(const analysis::CorpusExperts& counted, const Tokenizer& tokenizer,
                        const std::string& corpus, const std::string& split);

}  // namespace penstock::serve
