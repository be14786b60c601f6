#include "penstock/base/lines.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace penstock {
namespace {

using Lines = std::vector<std::pair<std::size_t, std::string>>;

Lines lines_of(std::string_view text) {
  Lines out;
  for_each_line(text, [&](std::string_view line, std::size_t number) {
    out.emplace_back(number, std::string(line));
  });
  return out;
}

TEST(Lines, HaveTheirEndsAndNumbers) {
  EXPECT_EQ(lines_of(""), Lines());
  EXPECT_EQ(lines_of("\n"), (Lines{{1, "\n"}}));
  EXPECT_EQ(lines_of("a\n\nb"), (Lines{{1, "a\n"}, {2, "\n"}, {3, "b"}}));
  EXPECT_EQ(lines_of("a\r\nb\n"), (Lines{{1, "a\r\n"}, {2, "b\n"}}));
}

TEST(Lines, EndsAreCutOff) {
  EXPECT_EQ(without_line_end("a\n"), "a");
  EXPECT_EQ(without_line_end("a\r\n"), "a");
  EXPECT_EQ(without_line_end("a\r"), "a");
  EXPECT_EQ(without_line_end("a\n\n"), "a\n");
  EXPECT_EQ(without_line_end("a"), "a");
  EXPECT_EQ(without_line_end(""), "");
}

}  // namespace
}  // namespace penstock
