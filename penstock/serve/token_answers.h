// The answers to POST /tokenize and POST /detokenize. They suit clients of llama.cpp's server and
// of vLLM.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "penstock/serve/reply.h"
#include "penstock/serve/request.h"
#include "penstock/serve/served_model.h"

namespace penstock::serve {

/// {"tokens", "token_strs", "count", "max_model_len"}. Each of "tokens" is an id, or with pieces
/// {"id", "piece"}, as of llama.cpp. "token_strs" is null unless it was requested.
/// Throws RequestError for a text that the tokenizer or the form of chats does not accept.
Reply tokenize_answer(const ServedModel& model, const TokenizeRequest& request,
                      std::chrono::steady_clock::time_point deadline);

/// {"content", "prompt"}, each the whole text. Control tokens stand for no text.
/// @param most  the largest number of bytes
/// Throws RequestError for an id outside the vocabulary, and for a longer text.
std::string detokenize_answer(const ServedModel& model, const DetokenizeRequest& request,
                              std::size_t most);

}  // namespace penstock::serve
