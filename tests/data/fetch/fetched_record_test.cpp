// Records of fetched files: they are compared with the files, and damaged records are refused.
#include "penstock/data/fetch/fetched_record.h"

#include <gtest/gtest.h>

#include "penstock/data/fetch/unpack_members.h"
#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::expect_says;

class FetchedRecords : public ::testing::Test {
 protected:
  FetchedRecord record() const { return {folder_ / "a.zip", {folder_ / "x", folder_ / "y"}}; }

  testing::TemporaryFolder folder_;
};

TEST_F(FetchedRecords, AreComparedWithTheFiles) {
  EXPECT_FALSE(record().exists());
  folder_.write("x", "1");
  folder_.write("y", "2");
  record().write("abc", 7);
  EXPECT_TRUE(record().exists());
  EXPECT_EQ(record().sha256(), "abc");
  EXPECT_EQ(record().bytes(), 7u);
  EXPECT_TRUE(record().is_complete());
  folder_.write("y", "3");
  expect_says(error_of([&] { (void)record().is_complete(); }),
              {folder_ / "y", "when it was fetched", "a.zip.fetched.json"});
  std::filesystem::remove(folder_ / "y");
  EXPECT_FALSE(record().is_complete());
}

TEST_F(FetchedRecords, AreRefusedWhereTheyAreDamaged) {
  for (const char* text : {"", "{", "[]", "3", "{}", R"({"sha256": "a", "bytes": 1})",
                           R"({"sha256": "a", "bytes": 1, "files": 3})",
                           R"({"sha256": "a", "bytes": 1, "files": {"x": "b"}})",
                           R"({"sha256": "a", "bytes": 1, "files": {"x": "b", "y": 3}})",
                           R"({"sha256": "a", "bytes": "many", "files": {"x": "b", "y": "c"}})",
                           R"({"sha256": null, "bytes": 1, "files": {"x": "b", "y": "c"}})"}) {
    folder_.write("a.zip.fetched.json", text);
    expect_says(error_of([&] { record(); }), {"a.zip.fetched.json", "is damaged", "remove it"});
  }
}

TEST(UnpackMembers, TakesArchivesAlone) {
  const testing::TemporaryFolder folder;
  folder.write("a.txt", "no archive");
  folder.write("a.zip", "no archive either");
  const std::string_view members[] = {"x"};
  for (const char* name : {"a.txt", "a.zip"})
    expect_says(error_of([&] { unpack_members(folder / name, members, folder / ""); }), {name});
}

}  // namespace
}  // namespace penstock
