#include "penstock/base/file_lock.h"

#include <gtest/gtest.h>

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

TEST(FileLock, NamesAPathThatCannotBeCreated) {
  testing::expect_error([&] { FileLock lock("/nowhere/at/all/.lock"); }, {"/nowhere/at/all/.lock"});
}

}  // namespace
}  // namespace penstock
