// Text by Unicode characters and white space.
#include "penstock/tasks/text.h"

#include <gtest/gtest.h>

namespace penstock::tasks {
namespace {

TEST(Text, IsCountedAndCutByCharacters) {
  EXPECT_EQ(character_count("a\u00e9\u20ac\U0001f600"), 4u);
  EXPECT_EQ(without_first("\u00e9t\u00e9", 2), "\u00e9");
  EXPECT_EQ(without_last("\u00e9t\u00e9", 2), "\u00e9");
  EXPECT_EQ(without_last("ab", 5), "");
}

TEST(Text, LosesUnicodeWhiteSpaceAtItsEnds) {
  EXPECT_EQ(left_stripped("\u00a0\t\u2003a b "), "a b ");
  EXPECT_EQ(right_stripped(" a b\n\u3000\x1c"), " a b");
  EXPECT_EQ(right_stripped("a\u200b"), "a\u200b");  // a format character is no space
  EXPECT_EQ(words(" a\u00a0b\n\n c"), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(words(" \u2029").empty());
}

TEST(Text, ChangesCaseByCharacters) {
  EXPECT_EQ(capitalized("\u00e9COLE \u00c9"), "\u00c9cole \u00e9");
  EXPECT_EQ(uncapitalized("\u00c9cole A"), "\u00e9cole A");
  EXPECT_EQ(lowered("\u00c9COLE 1"), "\u00e9cole 1");
  EXPECT_EQ(capitalized("") + uncapitalized(""), "");
}

TEST(Text, KnowsLettersAndDigits) {
  for (const char* one : {"a", "\u00c9", "7", "_", "\u00b2", "\u4e2d"})
    EXPECT_TRUE(is_letter_or_digit(one)) << one;
  for (const char* one : {"-", " ", "\u0301", "\u2019", "\xff"})
    EXPECT_FALSE(is_letter_or_digit(one)) << one;
}

}  // namespace
}  // namespace penstock::tasks
