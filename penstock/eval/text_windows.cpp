#include "penstock/eval/text_windows.h"

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/base/number_text.h"

namespace penstock {
namespace {

/// Sums over the scored tokens, with the bytes of their text.
LossTotals totals_of(std::span<const TokenSequence> windows,
                     std::span<const std::vector<double>> scores, const Tokenizer& tokenizer) {
  const auto bytes = tokenizer.token_bytes();
  LossTotals out;
  for (std::size_t w = 0; w < windows.size(); ++w)
    for (std::size_t i = 0; i < scores[w].size(); ++i) {
      const auto id = static_cast<std::size_t>(
          windows[w].ids[static_cast<std::size_t>(windows[w].first_scored) + i]);
      out.nats -= scores[w][i];
      out.tokens += 1;
      if (id < bytes.size()) out.bytes += bytes[id];
    }
  return out;
}

TokenSequence window_of(std::span<const TokenId> tokens, std::int64_t first_scored) {
  return {.ids = {tokens.begin(), tokens.end()}, .first_scored = first_scored};
}

}  // namespace

std::vector<TokenSequence> text_windows(std::span<const TokenId> ids, TokenId bos,
                                        std::int64_t length, TextProtocol protocol) {
  std::vector<TokenId> tokens;
  if (bos >= 0) tokens.push_back(bos);
  tokens.insert(tokens.end(), ids.begin(), ids.end());
  const auto n = static_cast<std::size_t>(length);
  std::vector<TokenSequence> windows;
  if (protocol == TextProtocol::kLlamaPerplexity) {
    PENSTOCK_CHECK(length >= 4, "protocol llama-perplexity scores half of each window: windows of ",
                   length, " tokens are too short");
    PENSTOCK_CHECK(tokens.size() >= n, "the text has ", tokens.size(),
                   " tokens, and protocol llama-perplexity drops what does not fill a window of ",
                   n, "; give more text or shorter windows");
    for (std::size_t begin = 0; begin + n <= tokens.size(); begin += n) {
      if (bos >= 0) tokens[begin] = bos;
      windows.push_back(window_of(std::span(tokens).subspan(begin, n), length / 2 + 1));
    }
    return windows;
  }
  PENSTOCK_CHECK(tokens.size() >= 2, "the text has ", count_text(std::ssize(tokens), "token"),
                 " and a token is scored after another; give more text");
  for (std::size_t begin = 0; begin + 1 < tokens.size(); begin += n) {
    const std::size_t size = std::min(n + 1, tokens.size() - begin);
    windows.push_back(window_of(std::span(tokens).subspan(begin, size), 1));
  }
  return windows;
}

ScoredText score_text(LanguageModel& model, const Tokenizer& tokenizer, std::string_view text,
                      const TextToScore& how) {
  const TokenId bos = tokenizer.beginning_of_document();
  const std::vector<TokenId> ids = tokenizer.encode_file(how.name, text);
  PENSTOCK_CHECK(ids.size() + (bos >= 0 ? 1 : 0) > 1, how.name, ": has ",
                 count_text(std::ssize(ids), "token"),
                 " and a token is scored after another; give more text");
  ScoredText out{.windows = text_windows(ids, bos, how.length, how.protocol)};
  out.scores = score_sequences(model, out.windows, {.most_tokens = 1, .progress = how.progress});
  out.totals = totals_of(out.windows, out.scores, tokenizer);
  if (tokenizer.drops_first_space() && bos >= 0 && out.windows.front().first_scored == 1)
    out.totals.bytes -= 1;
  return out;
}

}  // namespace penstock
