#include "penstock/data/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace penstock {
namespace {

TEST(Utf8, FindsTheFirstBadByte) {
  const auto npos = std::string_view::npos;
  for (const std::string_view good :
       {"", "plain", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(find_invalid_utf8(good), npos) << good;
  // Overlong forms, a surrogate, a code above U+10FFFF, a stray continuation byte, and cut
  // sequences.
  for (const std::string_view bad :
       {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc2", "\xe2\x82", "\xf0\x9f\x99",
        "\xc2"
        "a",
        "\xe2\x82"
        "a"})
    EXPECT_EQ(find_invalid_utf8("ok" + std::string(bad)), 2u);
}

}  // namespace
}  // namespace penstock
