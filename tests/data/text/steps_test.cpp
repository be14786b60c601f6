#include "penstock/data/text/steps.h"

#include "penstock/data/text/merge_table.h"
#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::expect_says;
using Pieces = std::vector<std::string>;

Pieces after(const std::shared_ptr<const TextStep>& step, Pieces pieces) {
  apply({step}, pieces, true);
  return pieces;
}

Pieces split(SplitBehaviour behaviour, bool inverted = false) {
  return after(split_step(std::make_shared<Pattern>("-"), behaviour, inverted),
               {"the-final--countdown"});
}

// The example in the tokenizers library's documentation of SplitDelimiterBehavior.
TEST(TextSteps, SplitBehaviours) {
  EXPECT_EQ(split(SplitBehaviour::kRemoved), (Pieces{"the", "final", "countdown"}));
  EXPECT_EQ(split(SplitBehaviour::kIsolated), (Pieces{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(split(SplitBehaviour::kMergedWithPrevious),
            (Pieces{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(split(SplitBehaviour::kMergedWithNext), (Pieces{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(split(SplitBehaviour::kContiguous), (Pieces{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(split(SplitBehaviour::kRemoved, true), (Pieces{"-", "-", "-"}));
}

TEST(TextSteps, Metaspace) {
  EXPECT_EQ(after(metaspace_step("_", MarkBegin::kAlways, true), {"Hey  friend!", "you"}),
            (Pieces{"_Hey", "_", "_friend!", "_you"}));
  EXPECT_EQ(after(metaspace_step("_", MarkBegin::kFirst, false), {"Hey you", "there"}),
            (Pieces{"_Hey_you", "there"}));
}

TEST(TextSteps, NormalForms) {
  EXPECT_EQ(normal_form("e\xcc\x81", NormalForm::kNfc), "\xc3\xa9");
  EXPECT_EQ(normal_form("\xc3\xa9", NormalForm::kNfd), "e\xcc\x81");
  EXPECT_EQ(normal_form("\xef\xac\x81", NormalForm::kNfkc), "fi");
  EXPECT_EQ(normal_form("\xef\xac\x81", NormalForm::kNfc), "\xef\xac\x81");
  EXPECT_EQ(normal_form("e\xcc\x81\xff"
                        "e\xcc\x81",
                        NormalForm::kNfc),
            "\xc3\xa9\xff\xc3\xa9");
}

TEST(TextSteps, CharactersOfWords) {
  for (const char* word : {"a", "Z", "5", "_", "\xc3\xa9", "\xe6\x97\xa5", "\xcc\x81",
                           "\xe2\x92\xb6", "\xe2\x85\xa7", "\xe2\x80\x8d", "\xe2\x80\xbf"})
    EXPECT_TRUE(is_word_character(word)) << word;
  for (const char* other : {" ", "-", "<", "\xc2\xb2", "\xe2\x82\xac", "\xe2\x80\x93", "\xff", ""})
    EXPECT_FALSE(is_word_character(other)) << other;
}

TEST(TextSteps, TextDoesNotGrowWithoutBound) {
  const auto twice = replace_step(std::make_shared<Pattern>(" ", true), "  ");
  Pieces pieces = {"a b"};
  expect_says(error_of([&] { apply(TextSteps(64, twice), pieces, true); }), {"blow"});
  expect_says(error_of([] { prepend_step(std::string(1000, 'x')); }), {"64"});
}

TEST(Pattern, HostilePatternsAndTextsEnd) {
  expect_says(error_of([] { Pattern("(a"); }), {"(a", "offset 2"});
  expect_says(error_of([] { Pattern("\xff"); }), {"UTF-8"});
  expect_says(error_of([] { Pattern(std::string(5000, '(') + std::string(5000, ')')); }),
              {"not usable"});
  const auto count = [](const std::string& pattern, const std::string& text) {
    std::size_t matches = 0;
    Pattern(pattern).for_each_match(text, [&](std::size_t, std::size_t) { ++matches; });
    return matches;
  };
  // The pattern can fail in 2^n ways.
  expect_says(error_of([&] { count("(a+)+[bc]", std::string(60, 'a')); }), {"(a+)+[bc]", "limit"});
  // The search advances after an empty match.
  EXPECT_EQ(count("x*", "aaxaxx"), 2u);
  EXPECT_EQ(count("", "abc"), 0u);
  // The search reads each long run only once.
  EXPECT_EQ(count("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", std::string(300000, ' ') + "x"), 2u);
  EXPECT_EQ(count("\\p{L}+", std::string(300000, 'a')), 1u);
}

TEST(Pattern, InvalidBytesMatchNothing) {
  std::vector<std::pair<std::size_t, std::size_t>> places;
  Pattern("\\w+").for_each_match(
      "ab\xff"
      "c \xe2\x82 d",
      [&](std::size_t begin, std::size_t end) { places.emplace_back(begin, end); });
  EXPECT_EQ(places, (std::vector<std::pair<std::size_t, std::size_t>>{{0, 2}, {3, 4}, {8, 9}}));
}

TEST(MergeTable, ManySymbolsMergeAsFewDo) {
  // A word of 19 symbols is scanned; a word of many symbols uses a heap. Both merge alike.
  MergeTable table;
  table.add(0, 1, {.order = 3, .result = 10});
  table.add(1, 0, {.order = 2, .result = 11});
  table.add(11, 11, {.order = 1, .result = 12});
  table.add(0, 12, {.order = 1, .result = 13});
  std::vector<TokenId> word;
  for (int i = 0; i < 19; ++i) word.push_back(i % 5 == 4 ? 7 : i % 2);
  std::vector<TokenId> few = word, many, expected;
  table.apply(few);
  for (int i = 0; i < 40; ++i) {
    many.insert(many.end(), word.begin(), word.end());
    many.push_back(-1);
    expected.insert(expected.end(), few.begin(), few.end());
    expected.push_back(-1);
  }
  table.apply(many);
  EXPECT_EQ(many, expected);
  EXPECT_LT(few.size(), word.size());
}

}  // namespace
}  // namespace penstock
