#include "penstock/eval/text_windows.h"

#include <gtest/gtest.h>

#include "penstock/base/error.h"

namespace penstock {
namespace {

using TokenIds = std::vector<TokenId>;

TokenIds first_ids(TokenId count) {
  TokenIds ids;
  for (TokenId id = 0; id < count; ++id) ids.push_back(id);
  return ids;
}

TEST(TextWindows, EveryTokenIsScoredOnceButTheFirst) {
  auto windows = text_windows(first_ids(10), -1, 4, TextProtocol::kWindows);
  ASSERT_EQ(windows.size(), 3u);
  EXPECT_EQ(windows[0].ids, (TokenIds{0, 1, 2, 3, 4}));
  EXPECT_EQ(windows[1].ids, (TokenIds{4, 5, 6, 7, 8}));
  EXPECT_EQ(windows[2].ids, (TokenIds{8, 9}));
  for (const TokenSequence& window : windows) EXPECT_EQ(window.first_scored, 1);
  windows = text_windows(first_ids(8), 99, 4, TextProtocol::kWindows);
  ASSERT_EQ(windows.size(), 2u);  // 99 only begins the text; no token is left over
  EXPECT_EQ(windows[0].ids, (TokenIds{99, 0, 1, 2, 3}));
  EXPECT_EQ(windows[1].ids, (TokenIds{3, 4, 5, 6, 7}));
  EXPECT_THROW(text_windows(first_ids(1), -1, 4, TextProtocol::kWindows), Error);
}

// By hand from the loop of llama.cpp's perplexity. Each chunk has n tokens and tokens[start] = BOS.
// Logits count from n/2 on, and n - n/2 - 1 tokens are scored.
TEST(TextWindows, LlamaPerplexity) {
  auto windows = text_windows(first_ids(10), 99, 4, TextProtocol::kLlamaPerplexity);
  ASSERT_EQ(windows.size(), 2u);  // 11 tokens with BOS: 7, 8, 9 are dropped
  EXPECT_EQ(windows[0].ids, (TokenIds{99, 0, 1, 2}));
  EXPECT_EQ(windows[1].ids, (TokenIds{99, 4, 5, 6}));  // BOS overwrites 3
  EXPECT_EQ(windows[1].first_scored, 3);
  windows = text_windows(first_ids(11), -1, 5, TextProtocol::kLlamaPerplexity);
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_EQ(windows[1].ids, (TokenIds{5, 6, 7, 8, 9}));
  EXPECT_EQ(windows[1].first_scored, 3);  // 8 and 9 are scored
  EXPECT_THROW(text_windows(first_ids(3), -1, 4, TextProtocol::kLlamaPerplexity), Error);
}

}  // namespace
}  // namespace penstock
