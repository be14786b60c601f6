// Loss and perplexity of raw text that is no corpus: one window after another, each window alone.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "penstock/data/tokenizer.h"
#include "penstock/eval/perplexity.h"

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

/// Throws Error for a name other than "windows" and "llama-perplexity".
TextProtocol parse_text_protocol(const std::string& name);

struct TextWindow {
  std::vector<TokenId> inputs;    ///< [T]
  std::vector<TokenId> targets;   ///< [T], the token after each input
  std::int64_t first_scored = 0;  ///< targets from here on are scored
};

/// The windows of a text's ids. `bos` begins the text, -1: nothing does. Throws Error where the
/// text is too short to score a token.
std::vector<TextWindow> text_windows(std::span<const TokenId> ids, TokenId bos, std::int64_t length,
                                     TextProtocol protocol);

struct ScoredToken {
  std::int64_t window, position;  ///< of the target, in its window
  TokenId id;
  double log_probability;  ///< natural logarithm
};

/// Scores each target of the windows, one window in a pass, and calls with each in turn. Puts the
/// model into evaluation mode and back. Throws Error for an id beyond the model's vocabulary.
void score_text(LanguageModel& model, std::span<const TextWindow> windows,
                const std::function<void(const ScoredToken&)>& visit);

}  // namespace penstock
