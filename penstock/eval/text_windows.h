// Raw text that is no corpus as windows of tokens, one after another, each scored by itself.
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

/// Which tokens a window has and which of them are scored.
enum class TextProtocol {
  /// Windows of n tokens, each of which is followed by a scored one: every token is scored once but
  /// the first of the text (which is the vocabulary's first of a document where there is one). The
  /// last window can be shorter.
  kWindows,
  /// As llama-perplexity has it: windows of n tokens, of which those from n/2 + 1 (from 0) on are
  /// scored; a window's first token is overwritten by the first of a document where there is one;
  /// what does not fill a window is dropped. Source: llama.cpp, tools/perplexity.
  kLlamaPerplexity,
};
constexpr std::array<std::string_view, 2> words(TextProtocol) {
  return {"windows", "llama-perplexity"};
}

/// The windows of a text's ids. `bos` begins the text, -1: nothing does. Throws Error where the
/// text is too short to score a token.
std::vector<TokenSequence> text_windows(std::span<const TokenId> ids, TokenId bos,
                                        std::int64_t length, TextProtocol protocol);

struct TextToScore {
  std::string name;         ///< of the text, for errors
  std::int64_t length = 0;  ///< tokens of a window, above 0
  TextProtocol protocol = TextProtocol::kWindows;
  std::function<void(double done, const LossTotals& sofar)> progress;  ///< may be null
};

/// The windows of a text and what was found of them.
struct ScoredText {
  std::vector<TokenSequence> windows;
  std::vector<std::vector<double>> scores;  ///< ln p of each window's scored tokens
  LossTotals totals;
};

/// Scores a text by windows, each in a pass of its own, so that their length alone says what a pass
/// takes. It begins with the vocabulary's first of a document where there is one.
/// Throws Error where the text is too short to score a token. The sum need not be finite.
ScoredText score_text(LanguageModel& model, const Tokenizer& tokenizer, std::string_view text,
                      const TextToScore& how);

}  // namespace penstock
