#include "penstock/finetune/texts.h"

#include <gtest/gtest.h>

#include <fstream>

#include "penstock/base/error.h"
#include "penstock/data/tokenizers/from_spec.h"
#include "penstock/eval/passes.h"
#include "penstock/finetune/model_encoder.h"
#include "penstock/finetune/score.h"
#include "penstock/finetune/text_order.h"
#include "penstock/finetune/word_encoding.h"
#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

using Ids = std::vector<std::int64_t>;

ClassificationSet set_of(std::vector<std::string> texts) {
  ClassificationSet out{.texts = std::move(texts), .class_names = {"x", "y"}};
  out.labels.assign(out.texts.size(), 0);
  return out;
}

EncodedSet of_lengths(const std::vector<std::size_t>& lengths) {
  EncodedSet out;
  for (const std::size_t length : lengths) out.texts.emplace_back(length, 5);
  out.labels.assign(lengths.size(), 0);
  return out;
}

TEST(TokenizerEncoder, PutsBordersAroundTextsShortEmptyAndLong) {
  const auto encoder = tokenizer_encoder(make_tokenizer("bytes", {}));
  const EncodedSet set = encoder->encode(set_of({"hi", "", "abcdef"}), 6);
  EXPECT_EQ(set.texts[0], (Ids{0, 'h', 'i', 0}));
  EXPECT_EQ(set.texts[1], (Ids{0, 0}));
  EXPECT_EQ(set.texts[2], (Ids{0, 'a', 'b', 'c', 'd', 0}));
  EXPECT_EQ(set.truncated, 1);
  EXPECT_THROW(encoder->encode(set_of({"hi"}), 2), Error);
}

TEST(TokenizerEncoder, TakesALineBreakWhereNothingEndsDocuments) {
  const auto encoder = tokenizer_encoder(make_tokenizer("bytes", {}, false));
  EXPECT_EQ(encoder->encode(set_of({""}), 6).texts[0], (Ids{'\n', '\n'}));
}

TEST(TokenizerEncoder, LeavesOutAndCountsWhatItCannotRepresent) {
  const auto encoder = tokenizer_encoder(make_tokenizer("bytes", {}));
  const EncodedSet set = encoder->encode(set_of({std::string("a\0\xc3\xa9\0z", 6)}), 20);
  EXPECT_EQ(set.texts[0], (Ids{0, 'a', 0xc3, 0xa9, 'z', 0}));
  EXPECT_EQ(set.left_out, 2);
}

TEST(WordEncoder, NumbersLowerCasedWordsByCount) {
  const ClassificationSet train = set_of({"Good  movie", "bad MOVIE ."}),
                          dev = set_of({"movie bad"});
  const auto encoder = word_encoder({&train, &dev});
  EXPECT_EQ(encoder->vocab_size(), 4 + 4);  // movie 3, bad 2, "." 1, good 1
  const EncodedSet set = encoder->encode(set_of({" movie\tBad good .", "", "unheard movie"}), 10);
  EXPECT_EQ(set.texts[0], (Ids{2, 4, 5, 7, 6, 3}));
  EXPECT_EQ(set.texts[1], (Ids{2, 3}));
  EXPECT_EQ(set.texts[2], (Ids{2, 1, 4, 3}));
  EXPECT_EQ(encoder->encode(set_of({"movie bad good"}), 4).texts[0], (Ids{2, 4, 5, 3}));
}

TEST(WordEncoder, ComesBackFromItsFile) {
  const testing::TempDirectory folder;
  const ClassificationSet train = set_of({"one two two \"three\""});
  const auto encoder = word_encoder({&train});
  for (const auto& [name, text] : encoder->files()) std::ofstream(folder.path() / name) << text;
  const auto again = load_text_encoder(folder.path().string());
  EXPECT_EQ(again->encode(train, 10).texts, encoder->encode(train, 10).texts);
  std::ofstream(folder.path() / "words.json") << "[\"<pad>\"]";
  EXPECT_THROW(load_text_encoder(folder.path().string()), Error);
}

TEST(TextOrder, EveryTextOnceAnEpochInAnOrderOfItsOwn) {
  const EncodedSet set = of_lengths({9, 3, 4, 3, 8, 2, 7, 3, 9, 2, 5});
  for (const std::int64_t pool : {1, 2, 50}) {
    TextOrder order(set, 2, pool, 7, false);
    ASSERT_EQ(order.batches_per_epoch(), 6);
    std::vector<TextIndices> epochs(2);
    for (std::int64_t step = 0; step < 12; ++step)
      for (const std::size_t i : order.at(step))
        epochs[static_cast<std::size_t>(step / 6)].push_back(i);
    EXPECT_NE(epochs[0], epochs[1]);
    for (auto& epoch : epochs) {
      std::ranges::sort(epoch);
      for (std::size_t i = 0; i < 11; ++i) EXPECT_EQ(epoch.at(i), i);
    }
    // A step's texts depend only on the seed and the step's number.
    TextOrder other(set, 2, pool, 7, false);
    EXPECT_EQ(other.at(8), order.at(8));
    TextOrder seeded(set, 2, pool, 8, false);
    bool differs = false;
    for (std::int64_t step = 0; step < 6; ++step) differs |= seeded.at(step) != order.at(step);
    EXPECT_TRUE(differs);
  }
}

TEST(TextOrder, APoolBringsTextsOfALengthTogether) {
  std::vector<std::size_t> lengths;
  for (std::size_t i = 0; i < 400; ++i) lengths.push_back(1 + i % 20);
  const EncodedSet set = of_lengths(lengths);
  const auto passes = [&](std::int64_t pool) {
    TextOrder order(set, 10, pool, 3, false);
    std::size_t count = 0;
    for (std::int64_t step = 0; step < 40; ++step)
      count += groups_of_equal_length(lengths, order.at(step), 10, 1000).size();
    return count;
  };
  EXPECT_EQ(passes(40), 40u);  // 20 texts of each length fill whole batches
  EXPECT_GT(passes(1), 200u);
}

TEST(TextOrder, APoolOfMoreThanAllTextsIsThatOfAll) {
  const EncodedSet set = of_lengths({9, 3, 4, 3, 8, 2, 7});
  // 4 times 2^62 would be 0 in 64 bits.
  TextOrder all(set, 4, 7, 3, false), more(set, 4, std::int64_t{1} << 62, 3, false);
  for (std::int64_t step = 0; step < 8; ++step) EXPECT_EQ(more.at(step), all.at(step));
}

TEST(TextOrder, DropsTheLastBatchWhereAsked) {
  const EncodedSet set = of_lengths({1, 2, 3, 4, 5});
  TextOrder order(set, 2, 1, 7, true);
  EXPECT_EQ(order.batches_per_epoch(), 2);
  for (std::int64_t step = 0; step < 6; ++step) EXPECT_EQ(order.at(step).size(), 2u);
  EXPECT_THROW(TextOrder(set, 6, 1, 7, true), Error);
}

}  // namespace
}  // namespace penstock
