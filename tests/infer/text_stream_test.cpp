// A stream of text gives only whole characters, and no part of a stop string, for any division of
// the bytes.
#include "penstock/infer/text_stream.h"

#include <gtest/gtest.h>

#include "penstock/data/utf8.h"

namespace penstock {
namespace {

/// The pieces that the stream gives when it gets `cut` bytes at a time.
std::vector<std::string> pieces(std::string_view bytes, std::size_t cut,
                                std::vector<std::string> stop = {}) {
  TextStream stream(std::move(stop));
  std::vector<std::string> out;
  for (std::size_t i = 0; i < bytes.size(); i += cut)
    out.push_back(stream.push(bytes.substr(i, cut)));
  out.push_back(stream.finish());
  return out;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const auto& part : parts) out += part;
  return out;
}

TEST(TextStream, CharactersComeWhole) {
  const std::string text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";  // 1, 2, 3, 4 and 1 bytes
  const auto bytewise = pieces(text, 1);
  EXPECT_EQ(bytewise, (std::vector<std::string>{"a", "", "\xc3\xa9", "", "", "\xe2\x82\xac", "", "",
                                                "", "\xf0\x9f\x98\x80", "z", ""}));
  for (std::size_t cut = 1; cut < text.size(); ++cut) {
    for (const auto& piece : pieces(text, cut))
      EXPECT_EQ(find_invalid_utf8(piece), std::string_view::npos);
    EXPECT_EQ(joined(pieces(text, cut)), text);
  }
}

TEST(TextStream, BytesThatAreNoTextBecomeReplacementCharacters) {
  const std::string no = "\xef\xbf\xbd";
  EXPECT_EQ(joined(pieces("a\xff"
                          "b",
                          1)),
            "a" + no + "b");
  EXPECT_EQ(joined(pieces("\xe2\x82"
                          "b",
                          1)),
            no + no + "b");
  EXPECT_EQ(joined(pieces("\xc0\xaf", 2)), no + no);                  // overlong
  EXPECT_EQ(joined(pieces("\xed\xa0\x80", 1)), no + no + no);         // a surrogate
  EXPECT_EQ(joined(pieces("x\xf0\x9f\x98", 1)), "x" + no + no + no);  // cut off at the end
  // Bytes that can no longer become a character are not held back.
  TextStream stream;
  EXPECT_EQ(stream.push("\xf4\x90"), no + no);  // above U+10FFFF
}

TEST(TextStream, CountsTheCharactersBeforeThePushedBytes) {
  TextStream stream({"zzz"});
  const auto before = [&](const char* bytes) {
    stream.push(bytes);
    return stream.last_begin();
  };
  EXPECT_EQ(before("a"), 0);
  EXPECT_EQ(before("b\xe2"), 1);
  EXPECT_EQ(before("\x82"), 2);  // they continue the character that began with \xe2
  EXPECT_EQ(before("\xac"), 2);
  EXPECT_EQ(before("\xff"), 3);  // no character: one U+FFFD
  EXPECT_EQ(before("zz"), 4);    // held back
  EXPECT_EQ(before("\xe2\x82"), 6);
  EXPECT_EQ(before("c"), 8);  // the two bytes before were no character
  EXPECT_EQ(before("d"), 9);
}

TEST(TextStream, StopStringsEndTheTextBeforeThem) {
  for (std::size_t cut = 1; cut < 9; ++cut) {
    EXPECT_EQ(joined(pieces("one\n\ntwo", cut, {"\n\n"})), "one");
    EXPECT_EQ(joined(pieces("one\ntwo", cut, {"\n\n"})), "one\ntwo");  // it begins and does not end
    EXPECT_EQ(joined(pieces("aaab", cut, {"aab"})), "a");
    EXPECT_EQ(joined(pieces("abcabd", cut, {"zz", "abd", "cab"})), "ab");  // the first in the text
    EXPECT_EQ(joined(pieces("ends with E", cut, {"END"})), "ends with E");
    EXPECT_EQ(joined(pieces("\xe2\x82\xac!", cut, {"\xe2\x82\xac"})), "");
  }
  TextStream stream({"stop"});
  EXPECT_EQ(stream.push("go st"), "go ");
  EXPECT_FALSE(stream.stopped());
  EXPECT_EQ(stream.push("opping"), "");
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(stream.push("more"), "");
  EXPECT_EQ(stream.finish(), "");
}

}  // namespace
}  // namespace penstock
