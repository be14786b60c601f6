#include "penstock/base/file_lock.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

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

/// The number in the file, 0 if there is none.
int number_in(const std::string& path) {
  int number = 0;
  std::ifstream(path) >> number;
  return number;
}

TEST(FileTurn, LosesNoChangeOfAFileThatSeveralReplace) {
  const testing::TempDirectory directory;
  const std::string path = directory.path("count"), link = directory.path("link");
  std::filesystem::create_symlink(path, link);
  const auto count = [&](const std::string& name) {
    for (int i = 0; i < 100; ++i) {
      const FileTurn turn(name);
      const int before = number_in(name);
      std::this_thread::yield();
      std::ofstream(name) << before + 1;
    }
  };
  // Each turn has a descriptor of its own, and so counts as a holder also within one process.
  std::vector<std::thread> all;
  for (int i = 0; i < 4; ++i) all.emplace_back(count, i % 2 == 0 ? path : link);
  for (auto& each : all) each.join();
  EXPECT_EQ(number_in(path), 400);
  EXPECT_FALSE(std::filesystem::exists(directory.path(".count.lock")));
}

TEST(FileTurn, TakesOverAFileThatAKilledHolderLeft) {
  const testing::TempDirectory directory;
  std::ofstream(directory.path(".count.lock")).flush();
  { const FileTurn turn(directory.path("count")); }
  EXPECT_FALSE(std::filesystem::exists(directory.path(".count.lock")));
}

TEST(FileTurn, NamesAPathThatCannotBeWritten) {
  testing::expect_error([] { FileTurn turn("/nowhere/at/all/count"); },
                        {"cannot write /nowhere/at/all/count", "/nowhere/at/all/.count.lock"});
}

}  // namespace
}  // namespace penstock
