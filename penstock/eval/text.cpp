#include "penstock/eval/text.h"

#include <algorithm>

#include "penstock/base/error.h"

namespace penstock {
namespace {

TokenSequence window_of(std::span<const TokenId> tokens, std::int64_t first_scored) {
  return {.ids = {tokens.begin(), tokens.end()}, .first_scored = first_scored};
}

}  // namespace

TextProtocol parse_text_protocol(const std::string& name) {
  if (name == "windows") return TextProtocol::kWindows;
  PENSTOCK_CHECK(name == "llama-perplexity", "protocol ", name,
                 " is not known; windows and llama-perplexity are");
  return TextProtocol::kLlamaPerplexity;
}

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
  PENSTOCK_CHECK(tokens.size() >= 2, "the text has ", tokens.size(),
                 tokens.size() == 1 ? " token" : " tokens",
                 " and a token is scored after another; give more text");
  for (std::size_t begin = 0; begin + 1 < tokens.size(); begin += n) {
    const std::size_t size = std::min(n + 1, tokens.size() - begin);
    windows.push_back(window_of(std::span(tokens).subspan(begin, size), 1));
  }
  return windows;
}

}  // namespace penstock
