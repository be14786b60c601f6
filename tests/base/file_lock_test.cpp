#include "penstock/base/file_lock.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "penstock/base/error.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

TEST(FileLock, OneHolderAtATime) {
  const testing::TempDirectory directory;
  const std::string path = (directory.path() / ".lock").string();
  std::optional<FileLock> first(path);
  // A second descriptor counts as a second holder, also within one process.
  EXPECT_THROW(FileLock second(path), Error);
  first.reset();
  EXPECT_NO_THROW(FileLock third(path));
}

TEST(FileLock, KnowsWhetherItsPathIsStillTheLockedFile) {
  const testing::TempDirectory directory;
  const auto folder = directory.path() / "run", moved = directory.path() / "moved";
  std::filesystem::create_directory(folder);
  const FileLock lock((folder / ".lock").string());
  EXPECT_TRUE(lock.in_place());
  std::filesystem::rename(folder, moved);
  EXPECT_FALSE(lock.in_place());
  std::filesystem::create_directory(folder);
  const FileLock of_another_run((folder / ".lock").string());
  EXPECT_FALSE(lock.in_place());
  EXPECT_TRUE(of_another_run.in_place());
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(of_another_run.in_place());
  std::filesystem::rename(moved, folder);
  EXPECT_TRUE(lock.in_place());
  std::filesystem::remove(folder / ".lock");
  EXPECT_FALSE(lock.in_place());
}

TEST(FileLock, NamesAPathThatCannotBeCreated) {
  testing::expect_error([&] { FileLock lock("/nowhere/at/all/.lock"); }, {"/nowhere/at/all/.lock"});
}

}  // namespace
}  // namespace penstock
