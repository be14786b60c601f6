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
  const std::string path = directory.path(".lock");
  std::optional<FileLock> first(path);
  // A second descriptor counts as a second holder, also within one process.
  EXPECT_THROW(FileLock second(path), Error);
  first.reset();
  EXPECT_NO_THROW(FileLock third(path));
}

TEST(FileLock, KnowsWhetherItsFolderIsStillAtItsPath) {
  const testing::TempDirectory directory;
  const auto folder = directory.path() / "run", moved = directory.path() / "moved";
  std::filesystem::create_directory(folder);
  FileLock lock((folder / ".lock").string());
  EXPECT_TRUE(lock.keep());
  std::filesystem::rename(folder, moved);
  EXPECT_FALSE(lock.keep());
  std::filesystem::create_directory(folder);
  EXPECT_FALSE(lock.keep());
  EXPECT_FALSE(std::filesystem::exists(folder / ".lock"));
  FileLock of_another_run((folder / ".lock").string());
  EXPECT_FALSE(lock.keep());
  EXPECT_TRUE(of_another_run.keep());
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(of_another_run.keep());
  // Many file systems give a new folder the inode of one that was just deleted.
  std::filesystem::create_directory(folder);
  EXPECT_FALSE(of_another_run.keep());
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
  std::filesystem::rename(moved, folder);
  EXPECT_TRUE(lock.keep());
}

TEST(FileLock, LocksAnewWhereOnlyItsFileIsGone) {
  const testing::TempDirectory directory;
  const std::string path = directory.path(".lock");
  const std::string refused = path + ": another process is working in this directory";
  FileLock lock(path);
  std::filesystem::remove(path);
  EXPECT_TRUE(lock.keep());
  testing::expect_error([&] { FileLock second(path); }, {refused});
  EXPECT_TRUE(lock.keep());
  // Another holder of the new file is told apart from one that left the file behind.
  std::filesystem::remove(path);
  std::optional<FileLock> other(path);
  testing::expect_error([&] { lock.keep(); }, {path + ": was deleted, and another process"});
  other.reset();
  EXPECT_TRUE(lock.keep());
  testing::expect_error([&] { FileLock second(path); }, {refused});
}

TEST(FileLock, NamesAPathThatCannotBeCreated) {
  testing::expect_error([&] { FileLock lock("/nowhere/at/all/.lock"); }, {"/nowhere/at/all/.lock"});
}

}  // namespace
}  // namespace penstock
