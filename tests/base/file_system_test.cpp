#include "penstock/base/file_system.h"

#include <gtest/gtest.h>

#include <string>

#include "penstock/base/mapped_file.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::TempDirectory;

void put(const std::filesystem::path& path, std::string_view text, OpenMode mode) {
  const auto file = real_file_system().open(path, mode);
  file->write(bytes_of(text));
  file->close();
}

TEST(RealFileSystem, TruncatesAndAppends) {
  const TempDirectory temp;
  auto& fs = real_file_system();
  const auto path = temp.path() / "a";
  put(path, "one", OpenMode::kTruncate);
  put(path, "two", OpenMode::kAppend);
  EXPECT_EQ(fs.read(path), "onetwo");
  EXPECT_EQ(fs.size(path), 6u);
  put(path, "x", OpenMode::kTruncate);
  EXPECT_EQ(fs.read(path), "x");
}

TEST(RealFileSystem, ListsSortedAndRemovesWhole) {
  const TempDirectory temp;
  auto& fs = real_file_system();
  create_directories(fs, temp.path() / "b" / "c" / "");
  EXPECT_FALSE(fs.create_directory(temp.path() / "b"));
  put(temp.path() / "a", "", OpenMode::kTruncate);
  EXPECT_EQ(fs.list(temp.path()), (std::vector<std::string>{"a", "b"}));
  fs.remove_all(temp.path() / "b");
  fs.remove_all(temp.path() / "never");
  EXPECT_EQ(fs.list(temp.path()), std::vector<std::string>{"a"});
}

TEST(RealFileSystem, ErrorsNameThePath) {
  const TempDirectory temp;
  auto& fs = real_file_system();
  const auto missing = temp.path() / "missing";
  for (const auto& error :
       {error_of([&] { fs.read(missing); }), error_of([&] { fs.list(missing); }),
        error_of([&] { fs.size(missing); }),
        error_of([&] { fs.rename(missing, temp.path() / "x"); }),
        error_of([&] { fs.sync_directory(missing); }),
        error_of([&] { fs.create_directory(missing / "below"); }),
        error_of([&] { fs.open(missing / "f", OpenMode::kAppend); }),
        error_of([&] { MappedFile file(missing); })})
    testing::expect_says(error, {"missing"});
}

TEST(RealFileSystem, ReadHasALimit) {
  const TempDirectory temp;
  const auto path = temp.path() / "a";
  put(path, std::string(100, 'x'), OpenMode::kTruncate);
  EXPECT_EQ(real_file_system().read(path, 100).size(), 100u);
  EXPECT_THROW(real_file_system().read(path, 99), Error);
}

TEST(RealFileSystem, AFullDeviceIsADiskFullError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  const auto file = real_file_system().open("/dev/full", OpenMode::kAppend);
  try {
    file->write(bytes_of("x"));
    FAIL() << "writing to a full device succeeded";
  } catch (const DiskFullError& error) {
    testing::expect_says(error.what(), {"disk full", "/dev/full"});
  }
}

TEST(MappedFile, MapsFilesAndRefusesOthers) {
  const TempDirectory temp;
  const auto path = temp.path() / "a";
  put(path, "text", OpenMode::kTruncate);
  MappedFile file(path);
  ASSERT_EQ(file.bytes().size(), 4u);
  EXPECT_EQ(std::to_integer<char>(file.bytes()[3]), 't');
  put(temp.path() / "empty", "", OpenMode::kTruncate);
  file = MappedFile(temp.path() / "empty");
  EXPECT_TRUE(file.bytes().empty());
  EXPECT_THROW(MappedFile{temp.path()}, Error);
  EXPECT_THROW(MappedFile{"/dev/null"}, Error);
}

}  // namespace
}  // namespace penstock
