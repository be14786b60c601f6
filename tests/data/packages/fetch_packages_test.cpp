#include "penstock/data/packages/fetch_packages.h"

#include <cstdlib>
#include <filesystem>
#include <set>

#include "penstock/base/file_system.h"
#include "penstock/data/sha.h"
#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::expect_says;
using testing::read_bytes;

/// Scripts in front of PATH replace apt-cache and apt-get. The packages that apt knows are in
/// shown/NAME, the packages that it can download in mirror/. Downloads are logged in `calls`.
class FetchPackages : public ::testing::Test {
 protected:
  FetchPackages() : path_(std::getenv("PATH")) {
    script("apt-cache", R"(
      case $1 in
        pkgnames) ls shown | grep "^$2" ;;
        show) shift; for name; do [ -e "shown/$name" ] && cat "shown/$name"; done; exit 100 ;;
      esac)");
    script("apt-get", R"(
      echo "${@: -1}" >> calls
      here=$OLDPWD
      for file in mirror/${3/=/_}_*; do [ -e "$file" ] && cp "$file" "$here" && exit 0; done
      echo "W: slow"; echo "E: no route to the mirror" >&2; exit 100)");
    ::setenv("PATH", (folder_ / "bin" + ":" + path_).c_str(), 1);
  }
  ~FetchPackages() override { ::setenv("PATH", path_.c_str(), 1); }

  void script(const std::string& name, const std::string& body) const {
    const std::string path = folder_.write(
        "bin/" + name, "#!/bin/bash\ncd '" + folder_ / "" + "' || exit 1\n" + body + "\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    std::filesystem::create_directories(folder_ / "shown");
    std::filesystem::create_directories(folder_ / "mirror");
  }
  /// Makes a package known to apt. The mirror has it only if `mirrored` is true.
  void publish(const std::string& name, const std::string& version, const std::string& content,
               bool mirrored = true) const {
    folder_.write("shown/" + name,
                  "Package: " + name + "\nVersion: " + version +
                      "\nArchitecture: all\nSize: " + std::to_string(content.size()) +
                      "\nSHA256: " + sha_of(bytes_of(content), ShaKind::kSha256) +
                      "\nDescription: x\n more: y\n\nPackage: " + name + "\nVersion: 0\n\n");
    if (mirrored) folder_.write("mirror/" + name + "_" + version + "_all.deb", content);
  }
  FetchedPackages fetch(const std::vector<std::string>& patterns) {
    return fetch_packages(patterns, folder_ / "cache", [](std::string_view) {});
  }
  std::string calls() const {
    const std::string out = read_bytes(folder_ / "calls");
    std::filesystem::remove(folder_ / "calls");
    return out;
  }
  std::set<std::string> cached() const {
    std::set<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "cache"))
      out.insert(entry.path().filename().string());
    return out;
  }
  testing::TemporaryFolder folder_;
  std::string path_;
};

TEST_F(FetchPackages, DownloadsTheNewestOnceAndKeepsIt) {
  publish("linux-source-6.1", "6.1-1", "old kernel");
  publish("linux-source-6.12", "6.12-1", "kernel");
  publish("linux-source-rt", "9", "not a version");
  publish("git-doc", "1", "manual");
  const std::vector<std::string> patterns = {"linux-source-*", "git-doc", "perl-doc", "llvm-*-doc"};
  const FetchedPackages first = fetch(patterns);
  ASSERT_EQ(first.files.size(), 2u);
  EXPECT_EQ(first.files[0].name, "linux-source-6.12");
  EXPECT_EQ(read_bytes(first.files[0].path), "kernel");
  EXPECT_EQ(first.notes,
            (std::vector<std::string>{"apt does not know these packages: perl-doc, llvm-*-doc"}));
  EXPECT_EQ(calls(), "linux-source-6.12=6.12-1\ngit-doc=1\n");
  EXPECT_EQ(fetch(patterns).files.size(), 2u);
  EXPECT_EQ(calls(), "");

  // A damaged file is fetched again. An older version is removed when the new one is there.
  folder_.write("cache/git-doc_1_all.deb", "manuaI");
  publish("linux-source-6.12", "6.12-2", "new kernel");
  EXPECT_EQ(fetch(patterns).files.size(), 2u);
  EXPECT_EQ(calls(), "linux-source-6.12=6.12-2\ngit-doc=1\n");
  EXPECT_EQ(cached(),
            (std::set<std::string>{"git-doc_1_all.deb", "linux-source-6.12_6.12-2_all.deb"}));
  EXPECT_EQ(read_bytes(folder_ / "cache/git-doc_1_all.deb"), "manual");
}

TEST_F(FetchPackages, WhatCannotBeHadIsANote) {
  publish("a", "1", "text of a");
  publish("b", "1", "text of b", false);
  publish("c", "1", "text of c");
  folder_.write("mirror/c_1_all.deb", "cut");
  const FetchedPackages fetched = fetch({"a", "b", "c"});
  ASSERT_EQ(fetched.files.size(), 1u);
  EXPECT_EQ(fetched.files[0].name, "a");
  ASSERT_EQ(fetched.notes.size(), 1u);
  expect_says(fetched.notes[0], {"b, c", "apt"});
  EXPECT_EQ(cached(), std::set<std::string>{"a_1_all.deb"});  // no partial files
}

TEST_F(FetchPackages, AfterThreeFailuresTheRestIsTakenFromTheCacheAlone) {
  publish("z", "1", "text of z");
  EXPECT_EQ(fetch({"z"}).files.size(), 1u);
  calls();
  for (const char* name : {"a", "b", "c", "d", "e"}) publish(name, "1", name, false);
  const FetchedPackages fetched = fetch({"a", "b", "c", "d", "e", "z"});
  ASSERT_EQ(fetched.files.size(), 1u);
  EXPECT_EQ(fetched.files[0].name, "z");
  EXPECT_EQ(calls(), "a=1\nb=1\nc=1\n");
  expect_says(fetched.notes.at(0), {"a, b, c, d, e", "no route to the mirror"});
}

TEST_F(FetchPackages, NothingAtAllIsAnErrorThatSaysWhatToDo) {
  for (const char* name : {"a", "b"}) publish(name, "1", name, false);
  expect_says(error_of([&] {
                fetch({"a", "b"});
              }),
              {"no route to the mirror", "apt-get update", "options.packages"});
  expect_says(error_of([&] { fetch({"unknown"}); }), {"apt knows none", "options.packages"});
  ::setenv("PATH", (folder_ / "nothing").c_str(), 1);
  expect_says(error_of([&] { fetch({"a"}); }), {"apt knows none", "options.packages"});
}

}  // namespace
}  // namespace penstock
