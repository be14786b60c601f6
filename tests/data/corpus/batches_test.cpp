#include "penstock/data/corpus/batches.h"

#include <algorithm>
#include <map>
#include <set>

#include "penstock/data/corpus/permutation.h"
#include "tests/data/prepared_corpus.h"
#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::expect_says;

/// A corpus with 23 + 3 train tokens in two domains: the documents "a".."j", "k".."m" and "n".."w",
/// each followed by its end token. It also has validation and test documents.
class Batches : public ::testing::Test {
 protected:
  static Corpus make(const testing::TemporaryFolder& folder) {
    return testing::prepared_corpus(
        {.inputs = {{.path = folder.write("a.txt", "abcdefghij"), .domain = "first"},
                    {.path = folder.write("b.txt", "klm"), .domain = "second"},
                    {.path = folder.write("c.txt", "nopqrstuvw"), .domain = "first"},
                    {.path = folder.write("v.txt", "0123456789"),
                     .domain = "first",
                     .split = Split::kValidation},
                    {.path = folder.write("t.txt", "!"), .domain = "first", .split = Split::kTest}},
         .split = "1,0,0",
         .out = folder / "corpus"});
  }
  static std::string text(const std::vector<std::int64_t>& ids) {
    std::string out;
    for (const auto id : ids) out += id == 0 ? '|' : static_cast<char>(id);
    return out;
  }

  testing::TemporaryFolder folder_;
  Corpus corpus_ = make(folder_);
};

TEST_F(Batches, CorpusCounts) {
  EXPECT_EQ(corpus_.vocab_size(), 256);
  EXPECT_EQ(corpus_.domains(), (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(corpus_.count(Split::kTrain).tokens, 26);
  EXPECT_EQ(corpus_.count(Split::kTrain).bytes, 23);
  EXPECT_EQ(corpus_.count(Split::kTrain).documents, 3);
  EXPECT_EQ(corpus_.count(Split::kTrain, 1).tokens, 4);
  EXPECT_EQ(corpus_.count(Split::kValidation).tokens, 11);
  EXPECT_EQ(corpus_.token_bytes()[0], 0);
  EXPECT_EQ(corpus_.token_bytes()['a'], 1);
  EXPECT_EQ(corpus_.tokenizer_spec(), "bytes");
}

TEST_F(Batches, ShuffledTakesEveryWindowOncePerEpoch) {
  const TrainingBatches batches(corpus_, {.sequence_length = 4, .batch_sequences = 3, .seed = 5});
  // (26 − 1) / 4 windows. Two epochs are four batches; an epoch ends after every second batch.
  EXPECT_EQ(batches.windows(), 6);
  EXPECT_EQ(batches.tokens_per_step(), 12);
  std::vector<std::vector<std::string>> epochs(2);
  for (int step = 0; step < 4; ++step) {
    const Batch batch = batches.batch(step);
    for (int i = 0; i < 3; ++i)
      epochs[step / 2].push_back(text(batch.slice(i, 1).inputs) + ">" +
                                 text(batch.slice(i, 1).targets));
  }
  EXPECT_NE(epochs[0], epochs[1]);
  for (auto& epoch : epochs) {
    std::sort(epoch.begin(), epoch.end());
    EXPECT_EQ(epoch, (std::vector<std::string>{"abcd>bcde", "efgh>fghi", "ij|k>j|kl", "lm|n>m|no",
                                               "opqr>pqrs", "stuv>tuvw"}));
  }
}

TEST_F(Batches, StreamsReadTheirOwnPartsInOrderAndBeginAnewTogether) {
  const TrainingBatches batches(
      corpus_, {.sequence_length = 4, .batch_sequences = 3, .sampling = Sampling::kStreams});
  // 25 targets: three streams of 8, from tokens 0, 8 and 16. Each has two windows; one target is
  // left.
  EXPECT_EQ(batches.windows(), 6);
  const std::vector<std::vector<std::string>> rows = {{"abcd>bcde", "ij|k>j|kl", "opqr>pqrs"},
                                                      {"efgh>fghi", "lm|n>m|no", "stuv>tuvw"}};
  for (int step = 0; step < 5; ++step) {
    const Batch batch = batches.batch(step);
    EXPECT_EQ(batch.fresh, step % 2 == 0);
    for (int i = 0; i < 3; ++i) {
      const Batch row = batch.slice(i, 1);
      EXPECT_EQ(text(row.inputs) + ">" + text(row.targets), rows[step % 2][i]) << step;
      EXPECT_EQ(row.fresh, batch.fresh);
    }
    EXPECT_EQ(batches.batch(step, 1, 2).inputs, batch.slice(1, 2).inputs);
    EXPECT_EQ(batches.batch(step, 1, 2).fresh, batch.fresh);
  }
  EXPECT_THROW(
      TrainingBatches(
          corpus_, {.sequence_length = 13, .batch_sequences = 2, .sampling = Sampling::kStreams}),
      Error);
}

TEST_F(Batches, EvaluationStreamsContinueWindowByWindowWhateverTheBatch) {
  // "0123456789|": 10 targets in three streams of 3. The last target is left out.
  const auto rows = [&](std::int64_t batch_sequences, std::int64_t max_tokens) {
    const EvaluationStreams streams(corpus_, Split::kValidation,
                                    {.sequence_length = 2,
                                     .batch_sequences = batch_sequences,
                                     .streams = 3,
                                     .max_tokens = max_tokens});
    std::vector<std::string> out;
    std::int64_t tokens = 0;
    for (std::int64_t i = 0; i < streams.batches(); ++i) {
      const Batch batch = streams.batch(i);
      tokens += batch.sequences * batch.length;
      for (std::int64_t row = 0; row < batch.sequences; ++row)
        out.push_back((batch.fresh ? "*" : "") + text(batch.slice(row, 1).inputs) + ">" +
                      text(batch.slice(row, 1).targets));
    }
    EXPECT_EQ(tokens, streams.tokens());
    return out;
  };
  using Rows = std::vector<std::string>;
  EXPECT_EQ(rows(1, 0), (Rows{"*01>12", "2>3", "*34>45", "5>6", "*67>78", "8>9"}));
  EXPECT_EQ(rows(2, 0), (Rows{"*01>12", "*34>45", "2>3", "5>6", "*67>78", "8>9"}));
  EXPECT_EQ(rows(9, 0), (Rows{"*01>12", "*34>45", "*67>78", "2>3", "5>6", "8>9"}));
  EXPECT_EQ(rows(3, 4), (Rows{"*0>1", "*3>4", "*6>7"}));
  EXPECT_THROW(EvaluationStreams(corpus_, Split::kValidation,
                                 {.sequence_length = 2, .batch_sequences = 1, .streams = 11}),
               Error);
}

TEST_F(Batches, AreAPureFunctionOfSeedAndStep) {
  for (const Sampling sampling : {Sampling::kShuffled, Sampling::kRandom}) {
    const TrainingOptions options{
        .sequence_length = 5, .batch_sequences = 4, .seed = 9, .sampling = sampling};
    const TrainingBatches one(corpus_, options), two(corpus_, options);
    for (int step = 0; step < 10; ++step) one.batch(step);
    EXPECT_EQ(one.batch(7).inputs, two.batch(7).inputs);
    auto other = options;
    other.seed = 10;
    EXPECT_NE(one.batch(7).inputs, TrainingBatches(corpus_, other).batch(7).inputs);
    EXPECT_NE(one.batch(7).inputs, one.batch(8).inputs);
    // Micro-batches are slices of the batch.
    const Batch whole = one.batch(7), part = one.batch(7, 1, 2);
    EXPECT_EQ(part.sequences, 2);
    EXPECT_EQ(part.inputs, whole.slice(1, 2).inputs);
    EXPECT_EQ(part.targets, whole.slice(1, 2).targets);
    EXPECT_EQ(part.domains, whole.slice(1, 2).domains);
  }
}

TEST_F(Batches, RandomReachesEveryOffsetAndNoOther) {
  const TrainingBatches batches(
      corpus_,
      {.sequence_length = 20, .batch_sequences = 50, .seed = 1, .sampling = Sampling::kRandom});
  const std::string all = "abcdefghij|klm|nopqrstuvw|";
  std::set<std::size_t> offsets;
  for (int step = 0; step < 4; ++step) {
    const Batch batch = batches.batch(step);
    for (int i = 0; i < 50; ++i) {
      const std::string row = text(batch.slice(i, 1).inputs);
      offsets.insert(all.find(row));
      EXPECT_EQ(text(batch.slice(i, 1).targets), all.substr(all.find(row) + 1, 20));
    }
  }
  EXPECT_EQ(offsets, (std::set<std::size_t>{0, 1, 2, 3, 4, 5}));
}

TEST_F(Batches, DomainsAreThoseOfTheTargets) {
  const EvaluationWindows windows(corpus_, Split::kTrain, {.sequence_length = 25});
  ASSERT_EQ(windows.batches(), 1);
  const Batch batch = windows.batch(0);
  // Targets "bcdefghij|" and "klm|" and "nopqrstuvw|".
  std::vector<std::int32_t> expected(10, 0);
  expected.insert(expected.end(), 4, 1);
  expected.insert(expected.end(), 11, 0);
  EXPECT_EQ(batch.domains, expected);
  EXPECT_TRUE(batch.starts.empty());
}

TEST_F(Batches, IsolationStartsWhereTheDocumentDoes) {
  const EvaluationWindows windows(corpus_, Split::kTrain,
                                  {.sequence_length = 25, .isolate_documents = true});
  // Inputs "abcdefghij|klm|nopqrstuvw": the second document begins at 11, the third at 15.
  std::vector<std::int64_t> expected(11, 0);
  expected.insert(expected.end(), 4, 11);
  expected.insert(expected.end(), 10, 15);
  EXPECT_EQ(windows.batch(0).starts, expected);
  // A window that begins inside a document may attend from its own first position.
  const EvaluationWindows short_windows(corpus_, Split::kTrain,
                                        {.sequence_length = 6, .isolate_documents = true});
  EXPECT_EQ(text(short_windows.batch(1).inputs), "ghij|k");
  EXPECT_EQ(short_windows.batch(1).starts, (std::vector<std::int64_t>{0, 0, 0, 0, 0, 5}));
}

TEST_F(Batches, EvaluationScoresEveryTargetOnce) {
  for (const std::int64_t length : {1, 2, 3, 4, 5, 7, 9, 10, 11, 100}) {
    for (const std::int64_t sequences : {1, 2, 3}) {
      const EvaluationWindows windows(corpus_, Split::kValidation,
                                      {.sequence_length = length, .batch_sequences = sequences});
      std::string inputs, targets;
      for (std::int64_t i = 0; i < windows.batches(); ++i) {
        const Batch batch = windows.batch(i);
        EXPECT_EQ(static_cast<std::int64_t>(batch.inputs.size()), batch.sequences * batch.length);
        EXPECT_LE(batch.length, length);
        inputs += text(batch.inputs);
        targets += text(batch.targets);
      }
      EXPECT_EQ(inputs, "0123456789");
      EXPECT_EQ(targets, "123456789|");
      EXPECT_EQ(windows.tokens(), 10);
    }
  }
}

TEST_F(Batches, SubsetIsEvenlySpaced) {
  const EvaluationWindows windows(corpus_, Split::kTrain,
                                  {.sequence_length = 4, .batch_sequences = 2, .max_tokens = 12});
  EXPECT_EQ(windows.tokens(), 12);
  ASSERT_EQ(windows.batches(), 2);
  // Windows 0, 2 and 4 of 6.
  EXPECT_EQ(text(windows.batch(0).inputs), "abcdij|k");
  EXPECT_EQ(text(windows.batch(1).inputs), "opqr");
}

TEST_F(Batches, TooLittleTextIsAnError) {
  expect_says(
      error_of([&] { TrainingBatches(corpus_, {.sequence_length = 26, .batch_sequences = 1}); }),
      {"train split", "26 tokens"});
  EXPECT_NO_THROW(TrainingBatches(corpus_, {.sequence_length = 25, .batch_sequences = 1}));
  expect_says(
      error_of([&] { TrainingBatches(corpus_, {.sequence_length = 0, .batch_sequences = 1}); }),
      {"at least one"});
  const Corpus untested =
      testing::prepared_corpus({.inputs = {{.path = folder_.write("only.txt", "text")}},
                                .split = "1,0,0",
                                .out = folder_ / "train-only"});
  expect_says(error_of([&] { EvaluationWindows(untested, Split::kTest, {.sequence_length = 4}); }),
              {"test split", "0 tokens", "--split"});
}

TEST(Permutation, IsABijectionOfEverySize) {
  for (std::uint64_t size = 1; size < 300; ++size) {
    std::set<std::uint64_t> seen;
    const Permutation order(size, 3, size);
    for (std::uint64_t i = 0; i < size; ++i) seen.insert(order(i));
    EXPECT_EQ(seen.size(), size);
    EXPECT_EQ(*seen.rbegin(), size - 1);
  }
}

TEST(Permutation, PlacesAreNearlyUniform) {
  // 6000 permutations of 6 numbers. Each of the 36 (index, place) pairs is expected 1000 times,
  // with a standard deviation of 29. Six standard deviations are allowed.
  std::map<std::pair<std::uint64_t, std::uint64_t>, int> counts;
  for (std::uint64_t stream = 0; stream < 6000; ++stream) {
    const Permutation order(6, 1, stream);
    for (std::uint64_t i = 0; i < 6; ++i) ++counts[{i, order(i)}];
  }
  for (const auto& [pair, count] : counts) EXPECT_NEAR(count, 1000, 174);
  EXPECT_EQ(counts.size(), 36u);
}

}  // namespace
}  // namespace penstock
