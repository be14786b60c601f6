// Scores a raw text instead of a corpus. The text is cut into windows of tokens that are scored
// separately.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/data/tokenizer.h"
#include "penstock/eval/sequences.h"

namespace penstock {

/// Which tokens a window holds and which of them are scored.
enum class TextProtocol {
  /// A window holds n + 1 tokens, and its last n tokens are scored. The next window begins with its
  /// last token. So every token of the text is scored once, except the first token, which
  /// is the BOS token if the vocabulary adds one. The last window can be shorter.
  kWindows,
  /// The protocol of llama-perplexity. A window holds n tokens, and tokens n/2 + 1 (counted from 0)
  /// to n − 1 are scored. If the vocabulary adds a BOS token, it replaces the first token of each
  /// window. Last tokens that do not fill a window are dropped. Source: llama.cpp,
  /// tools/perplexity.
  kLlamaPerplexity,
};
constexpr std::array<std::string_view, 2> words(TextProtocol) {
  return {"windows", "llama-perplexity"};
}

/// Cuts a text's ids into windows, with `bos` before the text (-1: none). Throws Error if the text
/// is too short to score a token.
std::vector<TokenSequence> text_windows(std::span<const TokenId> ids, TokenId bos,
                                        std::int64_t length, TextProtocol protocol);

struct TextToScore {
  std::string name;         ///< the text's name for errors
  std::int64_t length = 0;  ///< n of the protocol, above 0
  TextProtocol protocol = TextProtocol::kWindows;
  std::function<void(double done, const LossTotals& sofar)> progress;  ///< may be null
};

/// The windows of a text and their scores.
struct ScoredText {
  std::vector<TokenSequence> windows;
  std::vector<std::vector<double>> scores;  ///< ln p of each window's scored tokens
  LossTotals totals;
};

/// Scores a text by windows. Each window has a pass of its own, so that the cost of a pass depends
/// only on the window's length. The vocabulary's BOS token is put before the text if the vocabulary
/// adds one. The totals can be infinite or NaN.
/// Throws Error if the text is too short to score a token.
ScoredText score_text(LanguageModel& model, const Tokenizer& tokenizer, std::string_view text,
                      const TextToScore& how);

}  // namespace penstock
