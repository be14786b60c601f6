// Folders of an output that does not come to be.
#include "penstock/base/new_folders.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "penstock/base/error.h"
#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

TEST(NewFolders, GoAgainWhileTheyAreEmpty) {
  const testing::TempDirectory at;
  fs::create_directory(at.path("old"));
  {
    const NewFolders folders(real_file_system(), at.path("old/a/b"));
    EXPECT_TRUE(fs::is_directory(at.path("old/a/b")));
  }
  EXPECT_FALSE(fs::exists(at.path("old/a")));
  EXPECT_TRUE(fs::exists(at.path("old")));  // it was there before
}

TEST(NewFolders, ThatHoldSomethingStay) {
  const testing::TempDirectory at;
  {
    const NewFolders folders(real_file_system(), at.path("a/b/c"));
    std::ofstream(at.path("a/b/note")) << "of another program";
  }
  EXPECT_TRUE(fs::exists(at.path("a/b/note")));
  EXPECT_FALSE(fs::exists(at.path("a/b/c")));
}

TEST(NewFolders, LeaveALinkThatLedNowhere) {
  const testing::TempDirectory at;
  fs::create_directory_symlink(at.path("target"), at.path("link"));
  { const NewFolders folders(real_file_system(), at.path("link")); }
  EXPECT_TRUE(fs::is_symlink(at.path("link")));
}

TEST(NewFolders, GoIfOneOfThemCannotBeCreated) {
  const testing::TempDirectory at;
  const std::string too_long(300, 'x');
  EXPECT_THROW(NewFolders(real_file_system(), at.path("a") + "/" + too_long), Error);
  EXPECT_FALSE(fs::exists(at.path("a")));
}

}  // namespace
}  // namespace penstock
