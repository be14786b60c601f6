// Requests as tokens, by each protocol's rules: what is put before a text, where the scored part
// begins, and what is left out of a text that is longer than the model's window.
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
  std::size_t scored_from = 1;  ///< those from here on are scored; those before are context
  bool operator==(const TokenRequest&) const = default;
};

/// Turns texts into tokens for one model.
class RequestEncoder {
 public:
  /// `window`: the most tokens that the model reads at once.
  RequestEncoder(const Tokenizer& tokenizer, std::int64_t window);

  /// lm-eval: white space at the context's end goes to the continuation; the continuation's tokens
  /// are those of the whole text but the context's; a text begins with the tokenizer's BOS where
  /// its file says so; an empty context is the BOS, or else the end-of-text token; of what is too
  /// long the first tokens are left out (the model reads at most `window`, and the last token is
  /// only scored).
  /// OpenCompass: the whole text, begun as above; of what is too long the last tokens are left out.
  /// Throws Error where nothing is left to score, a continuation is longer than the window, or an
  /// empty context has no token to stand for it.
  TokenRequest encode(const TextRequest& request, Score score) const;

  /// lm-eval's cut: of what is too long the first tokens are left out. Throws Error where more than
  /// the window is scored.
  TokenRequest cut(TokenRequest request) const;

  /// What the model goes on from with up to `max_tokens` more. lm-eval leaves room for all of them
  /// and leaves out the first tokens of what is too long; OpenCompass leaves room for one (an
  /// answer ends with the window) and leaves out the last. Throws Error where there is no room.
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
  TokenId bos_ = -1;     ///< put before a text, or -1
  TokenId prefix_ = -1;  ///< stands for an empty context, or -1
};

/// The window of a model where nobody names another: its context, and what its memory holds.
std::int64_t usual_window(const ModelConfig& config);

}  // namespace penstock::tasks
