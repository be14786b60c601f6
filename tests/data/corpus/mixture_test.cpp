#include "penstock/data/corpus/mixture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "penstock/data/corpus/batches.h"
#include "tests/data/prepared_corpus.h"
#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::expect_says;

/// Counts the sequences that each corpus gives among the first n.
std::vector<std::int64_t> counts(const MixtureOrder& order, std::size_t corpora, std::int64_t n) {
  std::vector<std::int64_t> out(corpora);
  for (std::int64_t i = 0; i < n; ++i) ++out[order(i).corpus];
  return out;
}

TEST(MixtureOrder, KeepsTheSharesFromTheBeginning) {
  const std::vector<double> weights = {6, 3, 1};  // shares 0.6, 0.3, 0.1: blocks of 32
  const MixtureOrder order(weights, 7);
  for (const std::int64_t n : {32, 320, 3200, 32000}) {
    const auto found = counts(order, 3, n);
    for (std::size_t c = 0; c < 3; ++c)
      EXPECT_LE(std::abs(static_cast<double>(found[c]) - weights[c] / 10 * static_cast<double>(n)),
                1)
          << c << " of " << n;
  }
}

/// Each corpus gives each of its sequences exactly once, also where shares are rounded.
TEST(MixtureOrder, EachCorpusGivesItsOwnSequencesOnce) {
  const MixtureOrder order({5, 0.17, 1.3, 2}, 3);  // 4 / 0.17 · ... gives blocks of 128
  std::vector<std::set<std::int64_t>> seen(4);
  for (std::int64_t i = 0; i < 128 * 40; ++i) {
    const auto [corpus, index] = order(i);
    EXPECT_TRUE(seen[corpus].insert(index).second) << corpus << " gives " << index << " twice";
  }
  for (const auto& of_corpus : seen) {
    ASSERT_FALSE(of_corpus.empty());
    EXPECT_EQ(*of_corpus.begin(), 0);
    EXPECT_EQ(*of_corpus.rbegin(), static_cast<std::int64_t>(of_corpus.size()) - 1);
  }
}

TEST(MixtureOrder, DependsOnTheSeedAndMixesWithinABlock) {
  const MixtureOrder one({1, 1}, 1), again({1, 1}, 1), other({1, 1}, 2);
  std::string first, second, third;
  for (std::int64_t i = 0; i < 64; ++i) {
    first += static_cast<char>('a' + one(i).corpus);
    second += static_cast<char>('a' + again(i).corpus);
    third += static_cast<char>('a' + other(i).corpus);
  }
  EXPECT_EQ(first, second);
  EXPECT_NE(first, third);
  testing::expect_says(first, {"aa", "bb"});  // corpora do not simply alternate
}

TEST(MixtureOrder, OneCorpusKeepsItsOrder) {
  const MixtureOrder order({3}, 9);
  for (std::int64_t i = 0; i < 100; ++i) EXPECT_EQ(order(i).index, i);
}

TEST(MixtureOrder, RefusesWeightsThatAreNone) {
  for (const double weight : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                              std::numeric_limits<double>::infinity()})
    expect_says(error_of([&] { MixtureOrder({1, weight, 2}, 1); }), {"a positive one"});
  expect_says(error_of([] { MixtureOrder({1, 1e-9}, 1); }), {"a million times"});
}

Corpus letters(const testing::TemporaryFolder& folder, const std::string& name, char letter,
               const std::string& domain) {
  return testing::prepared_corpus(
      {.inputs = {{.path = folder.write(name + ".txt", std::string(400, letter)), .domain = domain},
                  {.path = folder.write(name + "-v.txt", "0123"),
                   .domain = domain,
                   .split = Split::kValidation},
                  {.path = folder.write(name + "-t.txt", "!"),
                   .domain = domain,
                   .split = Split::kTest}},
       .split = "1,0,0",
       .out = folder / name});
}

TEST(MixedBatches, TakeTheTextOfTheCorpusWithItsDomain) {
  const testing::TemporaryFolder folder;
  const std::vector<WeightedCorpus> corpora = {{letters(folder, "a", 'a', "prose"), 3},
                                               {letters(folder, "b", 'b', "code"), 1},
                                               {letters(folder, "c", 'c', "prose"), 4}};
  for (const Sampling sampling : {Sampling::kShuffled, Sampling::kRandom}) {
    const TrainingBatches batches(
        corpora, {.sequence_length = 4, .batch_sequences = 8, .seed = 5, .sampling = sampling});
    EXPECT_EQ(batches.domains(), (std::vector<std::string>{"prose", "code"}));
    std::vector<int> rows(3);
    for (std::int64_t step = 0; step < 16; ++step) {
      const Batch batch = batches.batch(step);
      for (std::int64_t row = 0; row < 8; ++row) {
        const auto letter = batch.inputs[static_cast<std::size_t>(row * 4)];
        ASSERT_TRUE(letter >= 'a' && letter <= 'c');
        ++rows[static_cast<std::size_t>(letter - 'a')];
        EXPECT_EQ(batch.domains[static_cast<std::size_t>(row * 4)], letter == 'b' ? 1 : 0);
        // A micro-batch is a row of the batch.
        EXPECT_EQ(batches.batch(step, row, 1).inputs, batch.slice(row, 1).inputs);
      }
    }
    EXPECT_EQ(rows, (std::vector<int>{48, 16, 64}));
  }
  expect_says(error_of([&] {
                TrainingBatches(
                    corpora,
                    {.sequence_length = 4, .batch_sequences = 2, .sampling = Sampling::kStreams});
              }),
              {"data.corpora"});
}

}  // namespace
}  // namespace penstock
