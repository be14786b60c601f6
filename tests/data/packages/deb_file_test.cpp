#include "penstock/data/packages/deb_file.h"

#include <algorithm>
#include <vector>

#include "penstock/data/packages/run_program.h"
#include "tests/data/packages/made_up_deb.h"
#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::archive_of;
using testing::deb_of;
using testing::error_of;
using testing::expect_says;
using testing::gzip_of;

/// "name=content" of every member whose name fits the pattern.
std::vector<std::string> members_of(const std::string& path, const std::string& pattern,
                                    const std::string& inner = "") {
  std::vector<std::string> out;
  read_deb(
      path, inner, [&](const std::string& name) { return fits_pattern(name, pattern); },
      [&](const std::string& name, const std::string& content) {
        out.push_back(name + "=" + content);
      });
  return out;
}

TEST(DebFile, UnpacksTheMembersThatAreWanted) {
  const testing::TemporaryFolder folder;
  for (const char* filter : {"xz", "gzip", ""}) {
    const std::string path =
        folder.write("a_1_all.deb", deb_of({{"usr/share/doc/a/one.txt", "first"},
                                            {"usr/share/doc/a/two.txt.gz", gzip_of("second")},
                                            {"usr/share/dictd/words.dict.dz", gzip_of("third")},
                                            {"usr/share/doc/a/empty.txt", ""},
                                            {"usr/share/doc/a/page.html", "<p>"}},
                                           filter));
    EXPECT_EQ(
        members_of(path, "*.txt"),
        (std::vector<std::string>{"usr/share/doc/a/empty.txt=", "usr/share/doc/a/one.txt=first",
                                  "usr/share/doc/a/two.txt=second"}));
    EXPECT_EQ(members_of(path, "usr/share/dictd/*.dict"),
              std::vector<std::string>{"usr/share/dictd/words.dict=third"});
  }
}

TEST(DebFile, ReadsArchivesWithinThePackage) {
  const testing::TemporaryFolder folder;
  const testing::Members sources = {{"linux-1/a.c", "int a;"}, {"linux-1/b.h", "int b;"}};
  const std::string path = folder.write(
      "s_1_all.deb", deb_of({{"usr/src/linux-1.tar.xz", archive_of(sources, "ustar", "xz")},
                             {"usr/lib/src.zip", archive_of(sources, "zip", "")},
                             {"usr/src/notes.c", "outside"}}));
  const std::vector<std::string> expected = {"linux-1/a.c=int a;"};
  EXPECT_EQ(members_of(path, "*.c", "usr/src/linux-*.tar"), expected);
  EXPECT_EQ(members_of(path, "*.c", "*/src.zip"), expected);
  EXPECT_EQ(members_of(path, "*.c"), std::vector<std::string>{"usr/src/notes.c=outside"});
}

TEST(DebFile, ReadsWhatDpkgBuilds) {
  const testing::TemporaryFolder folder;
  folder.write("a/DEBIAN/control",
               "Package: a\nVersion: 1\nArchitecture: all\nMaintainer: A <a@b>\nDescription: x\n");
  folder.write("a/usr/share/doc/a/one.txt", "first");
  const std::string long_name = "usr/share/doc/a/" + std::string(120, 'n') + "/two.txt.gz";
  folder.write("a/" + long_name, gzip_of("second"));
  for (const char* compression : {"-Zxz", "-Zgzip", "-Znone"}) {
    const auto built = run_program({"dpkg-deb", "--root-owner-group", compression, "--build", "a",
                                    std::string("a") + compression + ".deb"},
                                   folder / "", true);
    if (built.status == 127) GTEST_SKIP() << "no dpkg-deb";
    ASSERT_EQ(built.status, 0) << built.output;
    auto members = members_of(folder / ("a" + std::string(compression) + ".deb"), "*.txt");
    std::ranges::sort(members);
    EXPECT_EQ(members, (std::vector<std::string>{
                           "usr/share/doc/a/" + std::string(120, 'n') + "/two.txt=second",
                           "usr/share/doc/a/one.txt=first"}));
  }
}

TEST(DebFile, DamageIsAnErrorThatNamesTheFile) {
  const testing::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 400; ++i) text += testing::paragraph(i);
  const testing::Members sources = {{"linux-1/a.c", text}};
  const std::string good = deb_of({{"usr/share/doc/a/one.txt", text},
                                   {"usr/src/linux-1.tar.xz", archive_of(sources, "ustar", "xz")}});
  const auto both = [&](const std::string& path) {
    return error_of([&] { members_of(path, "*.txt"); }) +
           error_of([&] { members_of(path, "*.c", "usr/src/*.tar"); });
  };
  const std::string whole = folder.write("good.deb", good);
  EXPECT_EQ(members_of(whole, "*.txt").size(), 1u);
  EXPECT_EQ(members_of(whole, "*.c", "usr/src/*.tar").size(), 1u);
  const std::string cut = folder.write("cut.deb", good.substr(0, good.size() / 2));
  expect_says(error_of([&] { members_of(cut, "*.txt"); }), {"cut.deb", "get the file again"});
  std::string flipped = good;
  flipped[flipped.size() / 2] = static_cast<char>(~flipped[flipped.size() / 2]);
  expect_says(both(folder.write("flipped.deb", flipped)), {"flipped.deb", "damaged"});
  expect_says(both(folder.write("text.deb", text)), {"text.deb"});
  const std::string hollow =
      folder.write("hollow.deb", archive_of({{"debian-binary", "2.0\n"}}, "arsvr4", ""));
  expect_says(both(hollow), {"hollow.deb", "no Debian package"});
}

}  // namespace
}  // namespace penstock
