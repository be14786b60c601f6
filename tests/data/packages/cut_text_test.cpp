#include "penstock/data/packages/cut_text.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock {
namespace {

std::string joined(const std::vector<std::string_view>& pieces) {
  std::string out;
  for (const auto piece : pieces) out += piece;
  return out;
}

/// Expects every piece but the last to have 16 to 32 KB. `good` must hold at each cut, for the
/// piece before it and the first character after it.
void expect_cut(const std::string& text, bool (*good)(std::string_view before, char first)) {
  const auto pieces = cut_text(text);
  EXPECT_EQ(joined(pieces), text);
  EXPECT_GT(pieces.size(), 2u);
  for (std::size_t i = 0; i + 1 < pieces.size(); ++i) {
    EXPECT_GE(pieces[i].size(), 16u << 10);
    EXPECT_LE(pieces[i].size(), (32u << 10) + 3);
    EXPECT_TRUE(good(pieces[i], pieces[i + 1][0])) << pieces[i].substr(pieces[i].size() - 40);
  }
}

TEST(CutText, ShortTextsStayWhole) {
  EXPECT_TRUE(cut_text("").empty());
  const std::string text(kLongestDocument, 'x');
  EXPECT_EQ(cut_text(text).size(), 1u);
}

TEST(CutText, CutsWhereTheTextHasABreak) {
  std::string book, dictionary, lines, word;
  for (int i = 0; i < 20000; ++i) {
    book += i % 50 == 49 ? "\n" : "a line of a book\n";
    dictionary += i % 7 == 0 ? "headword\n" : "    what it means\n";
    lines += "  indented\n";
    word += "ä";
  }
  expect_cut(book, [](std::string_view before, char) { return before.ends_with("\n\n"); });
  expect_cut(dictionary, [](std::string_view, char first) { return first == 'h'; });
  expect_cut(lines, [](std::string_view before, char) { return before.ends_with('\n'); });
  expect_cut(word + word + word, [](std::string_view, char first) { return first == '\xc3'; });
}

}  // namespace
}  // namespace penstock
