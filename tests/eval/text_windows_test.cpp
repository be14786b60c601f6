#include "penstock/eval/text_windows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "penstock/base/error.h"
#include "penstock/data/tokenizers/from_vocabulary.h"
#include "tests/eval/constant_model.h"

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

/// "ab a" is _ab_a to a tokenizer that puts a space before it. This space is no byte of the text.
TEST(ScoreText, CountsTheBytesOfTheTextAlone) {
  Vocabulary vocabulary{.kind = Vocabulary::Kind::kSentencePieceBpe};
  using Type = Vocabulary::PieceType;
  vocabulary.pieces = {{.text = "<unk>", .type = Type::kUnknown},
                       {.text = "<s>", .type = Type::kControl},
                       {.text = "</s>", .type = Type::kControl},
                       {.text = "\u2581"},
                       {.text = "a"},
                       {.text = "b"}};
  vocabulary.unknown = 0, vocabulary.bos = 1, vocabulary.eos = 2;
  // p(_) = 1/2, p(a) = p(b) = 1/4.
  const auto model = testing::constant_model("dense", 6, {{3, std::log(2)}, {4, 0}, {5, 0}});
  const auto expect = [&](bool add_bos, TextProtocol protocol, int tokens, int bytes, double bits) {
    SCOPED_TRACE(concat(add_bos, " ", word(protocol)));
    vocabulary.add_bos = add_bos;
    const LossTotals found = score_text(*model, *make_tokenizer(vocabulary), "ab a",
                                        {.name = "text", .length = 4, .protocol = protocol})
                                 .totals;
    EXPECT_EQ(found.tokens, tokens);
    EXPECT_EQ(found.bytes, bytes);
    EXPECT_NEAR(found.nats, bits * std::numbers::ln2, 1e-5);
  };
  expect(true, TextProtocol::kWindows, 5, 4, 1 + 2 + 2 + 1 + 2);
  expect(false, TextProtocol::kWindows, 4, 4, 2 + 2 + 1 + 2);  // the first token is not scored
  expect(true, TextProtocol::kLlamaPerplexity, 1, 1, 2);       // b in the window of BOS, _, a, b
}

}  // namespace
}  // namespace penstock
