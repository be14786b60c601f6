#include "penstock/data/packages/package_files.h"

#include <algorithm>
#include <set>

#include "penstock/data/packages/package_table.h"
#include "tests/data/support.h"

namespace penstock {
namespace {

TEST(PackageFiles, VersionsAreOrderedAsDebianOrdersThem) {
  // The order of versions in Debian Policy, 5.6.12, with its example of tildes.
  const std::vector<std::string> order = {"1.0~~", "1.0~~a", "1.0~",           "1.0", "1.0a", "1.9",
                                          "1.19",  "2:1",    "2.36-9+deb12u13"};
  for (std::size_t i = 0; i < 7; ++i)
    for (std::size_t k = 0; k < 7; ++k)
      EXPECT_EQ(version_less(order[i], order[k]), i < k) << order[i] << " " << order[k];
  EXPECT_TRUE(version_less("2.36-9+deb12u9", order[8]));
  EXPECT_FALSE(version_less("1.007", "1.7"));
  EXPECT_FALSE(version_less("1.7", "1.007"));
}

TEST(PackageFiles, AStarStandsForAVersionAlone) {
  EXPECT_TRUE(fits_package("linux-source-6.1", "linux-source-*"));
  EXPECT_TRUE(fits_package("python3.11-doc", "python3.*-doc"));
  EXPECT_FALSE(fits_package("linux-source", "linux-source-*"));
  EXPECT_FALSE(fits_package("linux-source-", "linux-source-*"));
  EXPECT_FALSE(fits_package("llvm-spirv-doc", "llvm-*-doc"));
  EXPECT_TRUE(fits_package("git-doc", "git-doc"));
  EXPECT_FALSE(fits_package("git-docs", "git-doc"));
}

TEST(PackageFiles, TheNewestIsTaken) {
  const testing::TemporaryFolder folder;
  for (const char* name :
       {"linux-source-6.1_6.1.99-1_all.deb", "linux-source-6.12_6.12.1-1_all.deb",
        "linux-source-6.12_6.12.10-1_all.deb", "linux-source-6.12_6.12.9-1_all.deb",
        "git-doc_1%3a2.39-1_all.deb", "notes.txt", ".hidden_1_all.deb", "nothing.deb"})
    folder.write(name, "");
  const auto found = packages_in(folder / "");
  EXPECT_EQ(found.size(), 5u);
  const auto newest = newest_package(found, "linux-source-*");
  ASSERT_TRUE(newest);
  EXPECT_EQ(newest->name + " " + newest->version, "linux-source-6.12 6.12.10-1");
  EXPECT_EQ(newest_package(found, "git-doc")->version, "1:2.39-1");
  EXPECT_FALSE(newest_package(found, "perl-doc"));
  testing::expect_says(testing::error_of([&] { packages_in(folder / "missing"); }),
                       {"missing", "options.packages"});
}

TEST(PackageTable, EveryRowCanBeRead) {
  std::set<std::string> names, domains;
  for (const auto& package : text_packages()) {
    EXPECT_TRUE(names.insert(package.name).second) << package.name;
    EXPECT_FALSE(package.licence.empty()) << package.name;
    EXPECT_FALSE(package.texts.empty()) << package.name;
    EXPECT_LE(std::ranges::count(package.name, '*'), 1) << package.name;
    for (const auto& text : package.texts) {
      domains.insert(text.domain);
      EXPECT_FALSE(text.members.empty()) << package.name;
      for (const auto& pattern : text.members)
        EXPECT_FALSE(pattern.starts_with('/') || pattern.ends_with("gz")) << pattern;
    }
  }
  EXPECT_GE(domains.size(), 20u);
}

}  // namespace
}  // namespace penstock
