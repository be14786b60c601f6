#include "penstock/base/unnamed_file.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>
#include <string_view>

#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(UnnamedFile, ReadsBackWhatWasAppended) {
  const testing::TempDirectory folder;
  UnnamedFile file(folder.path(), "rows");
  file.append(bytes_of("one "));
  file.append(bytes_of("two"));
  EXPECT_EQ(file.size(), 7u);
  std::array<std::byte, 5> part{};
  EXPECT_EQ(file.read(0, part), 5u);
  EXPECT_EQ(text_of(part), "one t");
  EXPECT_EQ(file.read(4, part), 3u);
  EXPECT_EQ(text_of(Bytes(part).first(3)), "two");
  EXPECT_EQ(file.read(7, part), 0u);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(UnnamedFile, AMappingShowsWhatIsAppendedLater) {
  const testing::TempDirectory folder;
  UnnamedFile file(folder.path(), "rows");
  EXPECT_TRUE(file.map(0, 0).empty());
  const std::uint64_t page = UnnamedFile::page_bytes();
  const Bytes mapped = file.map(0, 3 * page);
  const std::string text(2 * page + 1, 'a');
  file.append(bytes_of(text));
  EXPECT_EQ(text_of(mapped.first(text.size())), text);
  file.append(bytes_of("b"));
  EXPECT_EQ(text_of(mapped.subspan(text.size(), 1)), "b");
  EXPECT_EQ(text_of(file.map(2 * page, 2)), "ab");
}

TEST(UnnamedFile, AFolderThatIsNotThereIsAnError) {
  const testing::TempDirectory folder;
  const std::string error =
      testing::error_of([&] { UnnamedFile(folder.path() / "missing", "rows"); });
  EXPECT_NE(error.find("missing"), std::string::npos) << error;
  EXPECT_NE(error.find("rows"), std::string::npos) << error;
}

}  // namespace
}  // namespace penstock
