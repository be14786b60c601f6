// The n-gram model against a hand-worked text and against the numbers of ngram_numbers.py.
#include "penstock/eval/ngram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "penstock/base/error.h"
#include "tests/base/temp_directory.h"
#include "tests/eval/ngram_by_hand.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

using Ids = std::vector<std::uint32_t>;

TEST(Ngram, OfFiveTokensWorkedByHand) {
  // The text is 0 0 1 0 0. The pair 00 occurs twice, 01 and 10 once. The symbols {begin, 0, 1}
  // occur before 0, and {0} before 1.
  // No context: (3 − 1½)/4 + (½ + 1½)/4 · ½ = 0.625 for 0, 0.375 for 1.
  // After 0: (2 − 1)/3 + (½ + 1)/3 · 0.625 for 0, (1 − ½)/3 + ½ · 0.375 for 1.
  const NgramModel model(Ids{0, 0, 1, 0, 0}, 2, 2);
  EXPECT_NEAR(model.probability({}, 0), 0.625, 1e-15);
  EXPECT_NEAR(model.probability({}, 1), 0.375, 1e-15);
  EXPECT_NEAR(model.probability(Ids{0}, 0), 1 / 3. + 0.5 * 0.625, 1e-15);
  EXPECT_NEAR(model.probability(Ids{1, 0}, 1), 0.5 / 3 + 0.5 * 0.375, 1e-15);
}

struct NumbersOfTheScript {
  struct Line {
    int order = 0;
    Ids context;
    std::uint32_t token = 0;
    double probability = 0;
  };
  Ids text;
  std::vector<Line> lines;

  NumbersOfTheScript() {
    std::ifstream file(std::string(PENSTOCK_SOURCE_DIR) + "/tests/eval/ngram_numbers.txt");
    std::string row, word;
    std::getline(file, row);
    std::istringstream first(row);
    first >> word >> word;
    for (std::uint32_t id = 0; first >> id;) text.push_back(id);
    while (std::getline(file, row)) {
      std::istringstream in(row);
      Line line;
      std::size_t length = 0;
      in >> line.order >> length;
      line.context.resize(length);
      for (auto& id : line.context) in >> id;
      in >> line.token >> line.probability;
      lines.push_back(line);
    }
  }
};

TEST(Ngram, GivesTheProbabilitiesOfTheScript) {
  const NumbersOfTheScript numbers;
  ASSERT_EQ(numbers.text.size(), 700u);
  ASSERT_EQ(numbers.lines.size(), 120u);
  for (const auto& line : numbers.lines)
    EXPECT_NEAR(NgramModel(numbers.text, 12, line.order).probability(line.context, line.token),
                line.probability, 1e-14)
        << "order " << line.order << ", token " << line.token;
}

TEST(Ngram, SumsToOneAfterAnyContext) {
  const NumbersOfTheScript numbers;
  for (int order = 1; order <= kMostNgramOrder; ++order) {
    const NgramModel model(numbers.text, 12, order);
    for (std::size_t end = 0; end < 60; ++end) {
      const Ids context(numbers.text.begin() + static_cast<std::ptrdiff_t>(end / 2),
                        numbers.text.begin() + static_cast<std::ptrdiff_t>(end));
      double sum = 0;
      for (std::uint32_t token = 0; token < 12; ++token) {
        const double p = model.probability(context, token);
        EXPECT_GT(p, 0);  // also for token 11, which is not in the text
        sum += p;
      }
      EXPECT_NEAR(sum, 1, 1e-12) << "order " << order;
    }
  }
}

TEST(Ngram, RefusesOrdersAndTextsThatItCannotTake) {
  EXPECT_THROW(NgramModel(Ids{0, 1, 0}, 2, 0), Error);
  EXPECT_THROW(NgramModel(Ids(20, 0), 2, 7), Error);
  EXPECT_THROW(NgramModel(Ids{0, 1}, 2, 3), Error);
}

/// −Σ ln p over the targets' probabilities.
double nats_of(const std::vector<double>& probabilities) {
  double out = 0;
  for (const double p : probabilities) out -= std::log(p);
  return out;
}

struct NgramOfTwoLetters : ::testing::Test {
  LossTotals score(const std::vector<std::string>& documents, const EvaluateOptions& options) {
    const testing::TempDirectory directory;
    const Corpus corpus = testing::corpus_by_hand(directory.path(), documents);
    vocab = static_cast<double>(corpus.vocab_size());
    return ngram_baseline(corpus, 3, options);
  }
  double vocab = 0;
};

TEST_F(NgramOfTwoLetters, ScoresTheWindowsOfAnEvaluationEachWithAFreshContext) {
  // Eight targets make four windows of two. Four tokens are windows 0 and 2: "aab" and "bab".
  const LossTotals windows =
      score({"aabababaa"}, {.split = Split::kTest, .sequence_length = 2, .max_tokens = 4});
  const testing::ThirdOrderByHand p(vocab);
  EXPECT_EQ(windows.tokens, 4);
  EXPECT_EQ(windows.bytes, 4);
  EXPECT_NEAR(windows.nats, nats_of({p.a_after_a, p.b_after_aa, p.a_after_b, p.b_after_ba}), 1e-12);
  // All four windows, in batches of three and one.
  EXPECT_NEAR(
      score({"aabababaa"}, {.split = Split::kTest, .sequence_length = 2, .batch_sequences = 3})
          .nats,
      nats_of({p.a_after_a, p.b_after_aa, p.a_after_b, p.b_after_ba, p.a_after_b, p.b_after_ba,
               p.a_after_b, p.a_after_ba}),
      1e-12);
}

TEST_F(NgramOfTwoLetters, ContinuesAlongStreamsAsFarAsTheMemoryReaches) {
  const auto with_memory = [&](std::int64_t memory) {
    return score({"aabababaa"}, {.split = Split::kTest,
                                 .sequence_length = 2,
                                 .batch_sequences = 1,
                                 .streams = 1,
                                 .memory_length = memory})
        .nats;
  };
  const double none = with_memory(0);
  const testing::ThirdOrderByHand p(vocab);
  EXPECT_NEAR(none,
              nats_of({p.a_after_a, p.b_after_aa, p.a_after_b, p.b_after_ba, p.a_after_b,
                       p.b_after_ba, p.a_after_b, p.a_after_ba}),
              1e-12);
  const double running = nats_of({p.a_after_a, p.b_after_aa, p.a_after_ab, p.b_after_ba,
                                  p.a_after_ab, p.b_after_ba, p.a_after_ab, p.a_after_ba});
  for (const std::int64_t memory : {1, 9, -1})  // one token before the window's first suffices
    EXPECT_NEAR(with_memory(memory), running, 1e-12) << memory;
}

TEST_F(NgramOfTwoLetters, BeginsAnewWithAnIsolatedDocument) {
  const auto isolated = [&](bool isolate) {
    return score({"ab", "ab"},
                 {.split = Split::kTest, .sequence_length = 3, .isolate_documents = isolate})
        .nats;
  };
  const double apart = isolated(true);
  const testing::ThirdOrderByHand p(vocab);
  EXPECT_NEAR(apart, nats_of({p.b_after_a, p.a_after_ab, p.b_after_a}), 1e-12);
  EXPECT_NEAR(isolated(false), nats_of({p.b_after_a, p.a_after_ab, p.b_after_ba}), 1e-12);
}

TEST(Ngram, ScoresASplitButItsFirstToken) {
  const testing::TempDirectory directory;
  const Corpus corpus = testing::small_corpus(directory.path());
  const auto range = corpus.file().range(Split::kValidation);
  const EvaluateOptions whole{.streams = 1};
  const LossTotals five = ngram_baseline(corpus, 5, whole);
  EXPECT_EQ(five.tokens, range.tokens - 1);
  // Six equally likely words, 40 bytes in all, take 6 · log2 6 bits, plus a little to learn the
  // words. Single characters without context take far more.
  EXPECT_GT(five.bits_per_byte(), 6 * std::log2(6) / 40 - 0.02);
  EXPECT_LT(five.bits_per_byte(), 6 * std::log2(6) / 40 + 0.05);
  EXPECT_GT(ngram_baseline(corpus, 1, whole).bits_per_byte(), 2);
}

}  // namespace
}  // namespace penstock
