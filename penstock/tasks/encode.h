// Encodes requests as tokens by each protocol's rules for the first token of a text, the beginning
// of the scored part, and the truncation of texts longer than the model's window.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/data/tokenizer.h"
#include "penstock/models/model_config.h"
#include "penstock/tasks/items.h"

namespace penstock::tasks {

struct TokenRequest {
  std::vector<TokenId> ids;     ///< at least two
  std::size_t scored_from = 1;  ///< tokens from here on are scored; earlier ones are context
  bool operator==(const TokenRequest&) const = default;
};

/// Encodes texts for one model.
class RequestEncoder {
 public:
  /// @param window  the largest number of tokens that the model reads at once
  RequestEncoder(const Tokenizer& tokenizer, std::int64_t window);

  /// lm-eval: white space at the context's end moves to the continuation. The continuation's tokens
  /// are the whole text's tokens without the context's. A text begins with the BOS token if the
  /// tokenizer's file says so. An empty context becomes the BOS token, or else the end-of-text
  /// token. A text that is too long loses its first tokens (the model reads at most `window`
  /// tokens, and the last token is only scored). OpenCompass: encodes the whole text, with the same
  /// first token. A text that is too long loses its last tokens.
  /// Throws Error if no token is left to score, if a continuation is longer than the window, or if
  /// the tokenizer has no token for an empty context.
  TokenRequest encode(const TextRequest& request, Score score) const;

  /// Truncates as lm-eval does: a request that is too long loses its first tokens. Throws Error if
  /// the scored part is longer than the window.
  TokenRequest cut(TokenRequest request) const;

  /// The prompt that the model continues by up to `max_tokens` tokens. lm-eval reserves
  /// `max_tokens` tokens of the window and drops the first tokens of a prompt that is too long.
  /// OpenCompass reserves one token (an answer ends with the window) and drops the last tokens.
  /// Throws Error if no token of the window is left for the prompt.
  std::vector<TokenId> encode_prompt(const Item& item, TaskProtocol protocol,
                                     std::int64_t max_tokens) const;

  /// The requests of an item, in order. Errors name its file and line.
  std::vector<TokenRequest> encode_item(const Item& item, Score score) const;

 private:
  std::vector<TokenId> begun(std::string_view text) const;
  TokenRequest continuation(std::string context, std::string continuation) const;
  TokenRequest whole(const TextRequest& request, Score score) const;

  const Tokenizer& tokenizer_;
  std::size_t window_;
  TokenId bos_ = -1;     ///< is put before a text; -1: none
  TokenId prefix_ = -1;  ///< replaces an empty context; -1: none
};

/// A model's default window, from its context and from the length that its memory holds.
std::int64_t usual_window(const ModelConfig& config);

}  // namespace penstock::tasks
