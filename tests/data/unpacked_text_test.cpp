#include "penstock/data/unpacked_text.h"

#include <string>

#include "tests/data/support.h"

namespace penstock {
namespace {

TEST(UnpackedText, IsTheSameInMemoryAndInAFile) {
  const testing::TemporaryFolder folder;
  const std::string block(std::size_t{3} << 20, 'x');
  for (const bool in_file : {false, true}) {
    UnpackedText text(in_file ? folder / "" : std::string());
    EXPECT_EQ(text.text(), "");
    std::size_t bytes = 0;
    while (bytes <= kLargeText) {
      text.append(block);
      text.append("y");
      bytes += block.size() + 1;
    }
    text.append("end");
    ASSERT_EQ(text.text().size(), bytes + 3);
    EXPECT_TRUE(text.text().ends_with("xyend"));
    EXPECT_EQ(text.text().find('y'), block.size());
    EXPECT_EQ(text.text().substr(block.size() + 1).find('y'), block.size());
    EXPECT_TRUE(std::filesystem::is_empty(folder / ""));
  }
}

}  // namespace
}  // namespace penstock
