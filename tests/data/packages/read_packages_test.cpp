#include "penstock/data/packages/read_packages.h"

#include <algorithm>
#include <map>

#include "tests/data/packages/made_up_deb.h"
#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::archive_of;
using testing::deb_of;
using testing::gzip_of;
using testing::paragraph;

std::string long_text(int first, int paragraphs) {
  std::string out;
  for (int i = 0; i < paragraphs; ++i) out += paragraph(first + i);
  return out;
}

class ReadPackages : public ::testing::Test {
 protected:
  PackageSource source(TextPackage text, const testing::Members& members) const {
    const std::string path = folder_.write(text.name + "_1_all.deb", deb_of(members));
    PackageFile file{text.name, "1", path};
    return {std::move(text), std::move(file)};
  }
  PackageDocuments read(const std::vector<PackageSource>& sources, std::uint64_t bytes = 1 << 30,
                        std::uint64_t seed = 0) const {
    return read_packages(sources, {.seed = seed, .domain_bytes = bytes, .root = folder_ / ""});
  }
  testing::TemporaryFolder folder_;
};

std::map<std::string, std::vector<std::string>> by_domain(const PackageDocuments& read) {
  std::map<std::string, std::vector<std::string>> out;
  for (const auto& document : read.documents) out[document.domain].emplace_back(document.text);
  for (auto& [domain, texts] : out) std::ranges::sort(texts);
  return out;
}

TEST_F(ReadPackages, EachMemberGoesToTheFirstDomainThatTakesIt) {
  const std::string german = long_text(0, 4), manual = long_text(10, 4), code = long_text(20, 4),
                    page = ".SH NAME\n" + long_text(30, 4);
  const auto guide = source({"guide",
                             "GPL",
                             {{"german", PackageForm::kText, {"*.de.txt"}},
                              {"manual", PackageForm::kText, {"*.txt"}},
                              {"pages", PackageForm::kMan, {"*/man/*"}}}},
                            {{"doc/a.de.txt.gz", gzip_of(german)},
                             {"doc/a.en.txt", manual},
                             {"doc/a.html", long_text(40, 4)},
                             {"usr/share/man/man1/x.1.gz", gzip_of(page)}});
  const auto kernel = source({"kernel", "GPL", {{"c", PackageForm::kCode, {"*.c"}}}, "src/k.tar"},
                             {{"src/k.tar.xz", archive_of({{"k/main.c", code}}, "ustar", "xz")}});
  const PackageDocuments documents = read({guide, kernel});
  const std::map<std::string, std::vector<std::string>> expected = {
      {"c", {code}},
      {"german", {german}},
      {"manual", {manual}},
      {"pages", {"NAME\n\n" + long_text(30, 4)}}};
  EXPECT_EQ(by_domain(documents), expected);
  ASSERT_EQ(documents.packages.size(), 2u);
  EXPECT_EQ(documents.packages[0].name, "guide");
  EXPECT_EQ(documents.packages[0].licence, "GPL");
  EXPECT_EQ(documents.packages[0].documents, 3);
  EXPECT_EQ(documents.packages[1].documents, 1);
  EXPECT_EQ(documents.packages[1].bytes, std::ssize(code));
}

TEST_F(ReadPackages, WhatIsNoTextIsPassedOver) {
  const std::string good = long_text(0, 4);
  const std::string table = long_text(0, 1200);  // code of more than 128 KB
  ASSERT_GT(table.size(), 128u << 10);
  const auto package =
      source({"p", "MIT", {{"c", PackageForm::kCode, {"*.c"}}, {"t", PackageForm::kText, {"*.t"}}}},
             {{"good.c", good},
              {"small.c", "int a;"},
              {"table.c", table},
              {"made.c", "/* @generated */" + good},
              {"latin.t", good + "\xff"},
              {"binary.t", good + std::string(1, '\0')}});
  EXPECT_EQ(by_domain(read({package})),
            (std::map<std::string, std::vector<std::string>>{{"c", {good}}}));
}

TEST_F(ReadPackages, LongTextsAreCutAndLimitsHoldByDomain) {
  testing::Members members;
  for (int i = 0; i < 20; ++i) members["a" + std::to_string(i) + ".c"] = long_text(10 * i, 10);
  members["book.t"] = long_text(1000, 1500);
  const auto package =
      source({"p", "MIT", {{"c", PackageForm::kCode, {"*.c"}}, {"t", PackageForm::kText, {"*.t"}}}},
             members);
  const auto all = by_domain(read({package}));
  EXPECT_EQ(all.at("c").size(), 20u);
  EXPECT_GT(all.at("t").size(), 4u);
  std::size_t bytes = 0;
  for (const auto& piece : all.at("t")) bytes += piece.size();
  EXPECT_EQ(bytes, members.at("book.t").size());

  const std::size_t one = members.at("a0.c").size(), limit = 5 * one + one / 2;
  const auto some = by_domain(read({package}, limit)), other = by_domain(read({package}, limit, 1));
  EXPECT_EQ(some.at("c").size(), 5u);
  EXPECT_FALSE(some.contains("t"));  // every piece of "t" is larger than the limit
  EXPECT_EQ(some, by_domain(read({package}, limit)));
  EXPECT_NE(some, other);
}

TEST_F(ReadPackages, RequestsForCommentsAreTakenWhereTheMachineHasThem) {
  const auto package =
      source({"p", "MIT", {{"c", PackageForm::kCode, {"*.c"}}}}, {{"a.c", long_text(0, 4)}});
  const std::string first = long_text(100, 5), second = long_text(200, 5);
  folder_.write("usr/share/doc/RFC/links/rfc1.txt.gz", gzip_of(first));
  folder_.write("usr/share/doc/RFC/links/rfc2.txt", second);
  folder_.write("usr/share/doc/RFC/index.txt", long_text(300, 5));
  std::filesystem::create_symlink("rfc2.txt", folder_ / "usr/share/doc/RFC/links/rfc3.txt");
  const PackageDocuments documents = read({package});
  std::vector<std::string> expected = {first, second};
  std::ranges::sort(expected);
  EXPECT_EQ(by_domain(documents).at("rfc"), expected);
  ASSERT_EQ(documents.packages.size(), 2u);
  EXPECT_EQ(documents.packages[1].name, "usr/share/doc/RFC");
  EXPECT_EQ(documents.packages[1].documents, 2);
}

}  // namespace
}  // namespace penstock
