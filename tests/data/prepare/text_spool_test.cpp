#include "penstock/data/prepare/text_spool.h"

#include <string>
#include <vector>

#include "tests/data/support.h"

namespace penstock {
namespace {

TEST(TextSpool, ViewsLastWhileMoreIsKept) {
  const testing::TemporaryFolder folder;
  TextSpool spool(folder / "", 8192);  // many extents, and texts that are longer than one
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 400; ++i)
    texts.push_back(
        std::string(i % 50 == 7 ? 20'000 + i : 13 * i % 997, static_cast<char>('a' + i % 26)));
  std::vector<std::string_view> kept;
  for (const auto& text : texts) {
    kept.push_back(spool.keep(text));
    if (kept.size() % 100 == 0) spool.release();
  }
  for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(kept[i], texts[i]) << i;
  EXPECT_TRUE(std::filesystem::is_empty(folder / ""));  // the spool's file has no name
}

TEST(TextSpool, ACopyOfAKeptTextIsATextOfItsOwn) {
  const testing::TemporaryFolder folder;
  TextSpool spool(folder / "");
  const std::string_view first = spool.keep("first"), copy = spool.keep(first);
  EXPECT_EQ(copy, "first");
  EXPECT_NE(copy.data(), first.data());
}

}  // namespace
}  // namespace penstock
