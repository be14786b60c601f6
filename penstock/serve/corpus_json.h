// The experts of a corpus's tokens and domains, for the page.
#pragma once

#include <string>

#include "penstock/analysis/token_experts.h"

namespace penstock::serve {

/// The body of GET /v1/corpus: by layer and expert the tokens that the expert gets most surely
/// (share of the token's places) and those that make most of what it gets (share of the expert's);
/// the most frequent tokens with the experts they go to; of each domain its tokens, loss and load.
/// @param corpus, split  their names for the reader
std::string corpus_json(const analysis::CorpusExperts& counted, const Tokenizer& tokenizer,
                        const std::string& corpus, const std::string& split);

}  // namespace penstock::serve
