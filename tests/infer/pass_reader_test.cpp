// Logits of passes over parts of several sequences equal, bit for bit, those of each sequence read
// token by token in a session of its own.
#include "penstock/infer/pass_reader.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/base/error.h"
#include "penstock/infer/session.h"
#include "penstock/models/make_model.h"
#include "tests/infer/support.h"

namespace penstock::pass_reader_test {
namespace {

using testing::random_tokens;
using testing::tiny;

constexpr std::int64_t kMost = 128;

/// The logits after each of the tokens, [T, V], from a session that reads one token at a time.
at::Tensor one_by_one(const std::shared_ptr<LanguageModel>& model,
                      const std::vector<TokenId>& tokens) {
  const auto session = make_session(model, {.capacity = kMost});
  const std::int64_t row = 0;
  std::vector<at::Tensor> out{session->begin(0, std::span(tokens).first(1))};
  for (std::size_t i = 1; i < tokens.size(); ++i)
    out.push_back(session->next({&row, 1}, std::span(tokens).subspan(i, 1))[0]);
  return torch::stack(out);
}

/// Reads sequence i in parts of sizes[i] tokens. Each pass takes one part of every unfinished
/// sequence.
void expect_same_bits(const ModelConfig& config, const std::vector<std::size_t>& sizes) {
  const auto model = make_model(config, 31);
  model->eval();
  const auto reader = make_pass_reader(model, {.sequences = 4, .kept = 2, .capacity = kMost});
  std::vector<std::vector<TokenId>> texts;
  std::vector<std::int64_t> slots;
  std::vector<at::Tensor> expected;
  std::vector<std::size_t> read(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    texts.push_back(random_tokens(20 + 30 * i, i));
    expected.push_back(one_by_one(model, texts[i]));
    slots.push_back(reader->begin(texts[i], kMost, {}, 0).value().slot);
  }
  for (bool more = true; more;) {
    std::vector<PassPart> parts;
    std::vector<std::pair<std::size_t, std::size_t>> asked;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::size_t count = std::min(sizes[i], texts[i].size() - read[i]);
      if (count == 0) continue;
      parts.push_back(
          {.slot = slots[i], .tokens = std::span(texts[i]).subspan(read[i], count), .asks = true});
      read[i] += count;
      asked.emplace_back(i, read[i] - 1);
    }
    more = !parts.empty();
    if (!more) break;
    const at::Tensor logits = reader->read(parts, {}, {});
    ASSERT_EQ(logits.size(0), std::ssize(asked));
    for (std::size_t n = 0; n < asked.size(); ++n)
      EXPECT_TRUE(logits[static_cast<std::int64_t>(n)].equal(
          expected[asked[n].first][static_cast<std::int64_t>(asked[n].second)]))
          << "text " << asked[n].first << ", token " << asked[n].second;
  }
}

TEST(PassReader, BitsAreThoseOfEachTokenAlone) {
  for (const char* method : {"dense", "topk", "remoe", "router-upcycling", "loss-free", "mlp"}) {
    SCOPED_TRACE(method);
    ModelConfig config = tiny(method);
    config.d_model = 48;
    config.d_ffn = 70;
    if (config.moe.experts > 0) {
      config.moe.shared_width = 20;
      config.moe.shared_gate = true;
    }
    expect_same_bits(config, {1, 7, 100, 16});
    expect_same_bits(config, {3, 3, 50, 1});
  }
}

TEST(PassReader, ABeginningThatWasCopiedHasTheBitsOfReadingIt) {
  const auto model = make_model(tiny("topk"), 32);
  model->eval();
  const auto reader = make_pass_reader(model, {.sequences = 2, .kept = 1, .capacity = kMost});
  std::vector<TokenId> first = random_tokens(60, 1), second = first;
  second.resize(45);
  second.push_back((first[45] + 1) % testing::kVocab);
  const auto tail = random_tokens(9, 2);
  second.insert(second.end(), tail.begin(), tail.end());
  for (const auto& text : {first, second}) {
    const auto begun = reader->begin(text, kMost, {}, 0).value();
    EXPECT_EQ(begun.reused, text == first ? 0 : 45);
    const PassPart part{.slot = begun.slot,
                        .tokens = std::span(text).subspan(static_cast<std::size_t>(begun.reused)),
                        .asks = true};
    EXPECT_TRUE(reader->read({&part, 1}, {}, {})[0].equal(one_by_one(model, text)[-1]));
  }
  EXPECT_FALSE(reader->begin(first, kMost, {}, 0).has_value());  // both slots are taken
}

TEST(PassReader, AsksOnlyWhereWanted) {
  const auto model = make_model(tiny("dense"), 33);
  model->eval();
  const auto reader = make_pass_reader(model, {.sequences = 1, .kept = 0, .capacity = 8});
  const auto text = random_tokens(9, 1);
  const std::int64_t slot = reader->begin(std::span(text).first(4), 8, {}, 0).value().slot;
  const PassPart silent{.slot = slot, .tokens = std::span(text).first(4)};
  EXPECT_FALSE(reader->read({&silent, 1}, {}, {}).defined());
  const PassPart beyond{.slot = slot, .tokens = std::span(text).last(5), .asks = true};
  EXPECT_THROW(reader->read({&beyond, 1}, {}, {}), Error);
}

}  // namespace
}  // namespace penstock::pass_reader_test
