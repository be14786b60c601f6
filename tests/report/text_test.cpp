// Tables and sections within a terminal's width.
#include "penstock/report/text.h"

#include <gtest/gtest.h>

#include <sstream>

namespace penstock::report {
namespace {

using study::Table;

std::size_t widest(const std::string& text) {
  std::istringstream lines(text);
  std::size_t out = 0;
  for (std::string line; std::getline(lines, line);) {
    std::size_t width = 0;
    for (const char c : line) width += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    out = std::max(out, width);
  }
  return out;
}

/// Three columns of width 10 beside one of 6: the table is 6 + 3·(2 + 10) = 42 wide.
Table sample(int first_rank, int second_rank) {
  return {.title = "t",
          .columns = {"name", {"first", "", first_rank}, {"second", "", second_rank}, "third"},
          .rows = {{{"dünn", "1234567890", "abcdefghij", "ABCDEFGHIJ"}},
                   {{"ab", "1", {"2", "± 0.1"}, "3"}},
                   {.cells = {"note", "–", "5", "6"}, .beneath = true}}};
}

TEST(TableText, AlignsCharactersAndIndentsRowsBeneath) {
  EXPECT_EQ(table_text(sample(0, 0)),
            "t:\n"
            "name         first      second       third\n"
            "dünn    1234567890  abcdefghij  ABCDEFGHIJ\n"
            "ab               1     2 ± 0.1           3\n"
            "  note           –           5           6\n");
}

TEST(TableText, LeavesOutTheHighestRanksFirstAndSaysSo) {
  const std::string text = table_text(sample(1, 2), 41);
  EXPECT_EQ(text,
            "t:\n"
            "name         first       third\n"
            "dünn    1234567890  ABCDEFGHIJ\n"
            "ab               1           3\n"
            "  note           –           6\n"
            "not shown in this width: second\n");
  EXPECT_EQ(table_text(sample(1, 2), 42).find("not shown"), std::string::npos);
  const std::string narrow = table_text(sample(1, 2), 29);
  EXPECT_NE(narrow.find("first, second"), std::string::npos) << narrow;
  EXPECT_LE(widest(narrow), 29u) << narrow;
}

TEST(TableText, GoesOnBelowItselfWhereNothingMayBeLeftOut) {
  EXPECT_EQ(table_text(sample(0, 0), 30),
            "t:\n"
            "name         first      second\n"
            "dünn    1234567890  abcdefghij\n"
            "ab               1     2 ± 0.1\n"
            "  note           –           5\n"
            "\n"
            "name         third\n"
            "dünn    ABCDEFGHIJ\n"
            "ab               3\n"
            "  note           6\n");
}

TEST(Wrapped, BreaksBetweenWordsAndIndents) {
  EXPECT_EQ(wrapped("one two three\n  four five", 8), "one two\n  three\n  four\n    five\n");
  EXPECT_EQ(wrapped("unbreakable", 4), "unbreakable\n");
  EXPECT_EQ(wrapped("", 10), "");
  EXPECT_EQ(wrapped("one two   ", 8), "one two\n");
}

TEST(SectionText, HasTablesMapsNoteAndRemarks) {
  study::HeatMap map{.rows = {{"layer 0", {0.25, 0.5, 0.125}, "…a"}},
                     .columns = {"0", "1", "2"},
                     .scale = 100,
                     .unit = " %"};
  study::Section section{.title = "Section",
                         .tables = {sample(0, 0)},
                         .maps = {{.name = "topk", .variant = 0, .map = map}},
                         .remarks = {{"said", study::Tone::warning}},
                         .note = "a note"};
  section.tables[0].title.clear();
  const std::string text = section_text(section);
  EXPECT_TRUE(text.starts_with("Section:\nname  ")) << text;
  EXPECT_NE(text.find("1: 50.0   0: 25.0   2: 12.5 %"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("a note\n\nsaid\n")) << text;
}

}  // namespace
}  // namespace penstock::report
