#include "penstock/eval/text.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

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
  EXPECT_EQ(windows[0].inputs, (TokenIds{0, 1, 2, 3}));
  EXPECT_EQ(windows[0].targets, (TokenIds{1, 2, 3, 4}));
  EXPECT_EQ(windows[1].inputs, (TokenIds{4, 5, 6, 7}));
  EXPECT_EQ(windows[2].inputs, (TokenIds{8}));
  EXPECT_EQ(windows[2].targets, (TokenIds{9}));
  windows = text_windows(first_ids(8), 99, 4, TextProtocol::kWindows);
  ASSERT_EQ(windows.size(), 2u);  // 99 begins the text alone, and then nothing is left over
  EXPECT_EQ(windows[0].inputs, (TokenIds{99, 0, 1, 2}));
  EXPECT_EQ(windows[1].targets, (TokenIds{4, 5, 6, 7}));
  EXPECT_THROW(text_windows(first_ids(1), -1, 4, TextProtocol::kWindows), Error);
}

// By hand from the loop of llama.cpp's perplexity: chunks of n, logits from n/2 on, n - n/2 - 1
// scored, tokens[start] = BOS.
TEST(TextWindows, LlamaPerplexity) {
  auto windows = text_windows(first_ids(10), 99, 4, TextProtocol::kLlamaPerplexity);
  ASSERT_EQ(windows.size(), 2u);  // 11 tokens: 7, 8, 9 are dropped
  EXPECT_EQ(windows[0].inputs, (TokenIds{99, 0, 1}));
  EXPECT_EQ(windows[0].targets, (TokenIds{0, 1, 2}));
  EXPECT_EQ(windows[1].inputs, (TokenIds{99, 4, 5}));  // 3 is overwritten
  EXPECT_EQ(windows[1].targets, (TokenIds{4, 5, 6}));
  EXPECT_EQ(windows[1].first_scored, 2);
  windows = text_windows(first_ids(11), -1, 5, TextProtocol::kLlamaPerplexity);
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_EQ(windows[1].inputs, (TokenIds{5, 6, 7, 8}));
  EXPECT_EQ(windows[1].first_scored, 2);  // 8 and 9 are scored
  EXPECT_THROW(text_windows(first_ids(3), -1, 4, TextProtocol::kLlamaPerplexity), Error);
  EXPECT_THROW(parse_text_protocol("llama"), Error);
}

TEST(ScoreText, IsTheLogSoftmaxOfTheLogits) {
  torch::manual_seed(5);
  ModelConfig config;
  config.vocab = 12;
  config.d_model = 16;
  config.layers = 2;
  config.heads = 2;
  config.d_ffn = 24;
  config.context = 8;
  const auto model = make_model(config);
  const TokenIds ids = {3, 1, 4, 1, 5, 9, 2, 6, 5};
  const auto windows = text_windows(ids, -1, 4, TextProtocol::kWindows);
  std::size_t next = 0;
  torch::NoGradGuard no_grad;
  score_text(*model, windows, [&](const ScoredToken& token) {
    ++next;  // the text's token that is scored
    EXPECT_EQ(token.id, ids.at(next));
    EXPECT_EQ(token.window, static_cast<std::int64_t>(next - 1) / 4);
    EXPECT_EQ(token.position, static_cast<std::int64_t>(next - 1) % 4 + 1);
    const std::size_t begin = (next - 1) / 4 * 4;
    std::vector<std::int64_t> seen(ids.begin() + static_cast<std::ptrdiff_t>(begin),
                                   ids.begin() + static_cast<std::ptrdiff_t>(next));
    RoutingContext context;
    const auto output = model->forward({.tokens = torch::tensor(seen).unsqueeze(0)}, context);
    const at::Tensor logits = model->logits(output.hidden[-1]).to(at::kDouble);
    EXPECT_NEAR(token.log_probability, torch::log_softmax(logits, -1)[token.id].item<double>(),
                1e-5);
  });
  EXPECT_EQ(next, ids.size() - 1);
  EXPECT_THROW(score_text(*model, text_windows(TokenIds{1, 12}, -1, 4, TextProtocol::kWindows),
                          [](const ScoredToken&) {}),
               Error);
}

}  // namespace
}  // namespace penstock
