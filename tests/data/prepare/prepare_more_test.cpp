#include <nlohmann/json.hpp>

#include "penstock/data/prepare/prepare.h"
#include "tests/data/packages/made_up_deb.h"
#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::expect_says;
using testing::paragraph;
using testing::read_bytes;

/// Packages of some MB in a folder, and a system root without text.
class PrepareMore : public ::testing::Test {
 protected:
  PrepareOptions more() const {
    PrepareOptions o;
    o.out = folder_ / "corpus";
    o.system = o.more = true;
    o.system_root = folder_ / "root/";
    o.packages = folder_ / "packages";
    return o;
  }
  /// A document of 220 paragraphs. 40 such documents make a domain of the least size.
  static std::string document(int number) {
    std::string out;
    for (int i = 0; i < 220; ++i) out += paragraph(220 * number + i);
    return out;
  }
  void write_packages() const {
    testing::Members git, faq, small;
    for (int i = 0; i < 40; ++i)
      faq["usr/share/doc/faq/" + std::to_string(i) + ".txt"] = document(i);
    // Half of this package repeats debian-faq-de.
    for (int i = 0; i < 80; ++i)
      git["usr/share/doc/git-doc/" + std::to_string(i) + ".txt"] = document(i);
    small["usr/share/doc/faq.ja.txt"] = document(80);
    folder_.write("packages/git-doc_1%3a2_all.deb", testing::deb_of(git));
    folder_.write("packages/debian-faq-de_1_all.deb", testing::deb_of(faq));
    folder_.write("packages/debian-faq-ja_1_all.deb", testing::deb_of(small));
    folder_.write("packages/unknown_1_all.deb", "never opened");
  }
  testing::TemporaryFolder folder_;
};

TEST_F(PrepareMore, GathersPackagesByDomainAndSaysWhatItTook) {
  write_packages();
  const PrepareResult result = prepare_corpus(more());
  ASSERT_EQ(result.domains.size(), 2u);
  EXPECT_EQ(result.domains[0].name, "german");
  EXPECT_EQ(result.domains[1].name, "manual");
  ASSERT_EQ(result.gathered.size(), 3u);  // by name: german, japanese, manual
  EXPECT_EQ(result.gathered[0].domain, "german");
  const auto size = std::ssize(document(0));
  EXPECT_EQ(result.gathered[0].read_bytes, 40 * size);
  EXPECT_EQ(result.gathered[0].unique_bytes, 40 * size);
  EXPECT_EQ(result.gathered[2].read_bytes, 80 * size);
  EXPECT_EQ(result.gathered[2].unique_bytes, 40 * size);
  for (const auto& domain : result.domains) {
    std::int64_t kept = 0;
    for (const auto& count : domain.counts) kept += count.bytes;
    EXPECT_EQ(kept, 40 * size) << domain.name;
  }
  EXPECT_EQ(result.validation_overlap, 0);
  ASSERT_EQ(result.packages.size(), 3u);
  EXPECT_EQ(result.packages[2].name + " " + result.packages[2].version, "git-doc 1:2");
  EXPECT_EQ(result.packages[2].documents, 80);
  std::string notes;
  for (const auto& note : result.notes) notes += note + "\n";
  expect_says(notes, {"has no file of these packages: ", "linux-source-*",
                      "domain japanese dropped: ", "domain cpp missing: "});
  const auto json = nlohmann::json::parse(to_json(result));
  EXPECT_EQ(json.at("packages").at(2).at("licence"), "GPL-2.0-only");
  EXPECT_EQ(json.at("gathered").at("manual").at("read_bytes"), 80 * size);

  auto again = more();
  again.out = folder_ / "again";
  EXPECT_EQ(prepare_corpus(again).content_hash, result.content_hash);
}

TEST_F(PrepareMore, ADamagedPackageIsAnErrorAndLeavesNothing) {
  write_packages();
  const std::string good = read_bytes(folder_ / "packages/git-doc_1%3a2_all.deb");
  folder_.write("packages/git-doc_1%3a2_all.deb", good.substr(0, good.size() / 2));
  expect_says(error_of([&] { prepare_corpus(more()); }),
              {"git-doc_1%3a2_all.deb", "get the file again"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "corpus"));
}

TEST_F(PrepareMore, OptionsThatDoNotFitAreErrors) {
  auto o = more();
  expect_says(error_of([&] { prepare_corpus(o); }), {"packages", "options.packages"});
  std::filesystem::create_directories(folder_ / "packages");
  expect_says(error_of([&] { prepare_corpus(o); }),
              {"holds none of the packages", "options.packages"});
  o.more = false;
  expect_says(error_of([&] { prepare_corpus(o); }), {"options.packages", "options.more"});
  o.system = false;
  o.more = true;
  o.inputs = {{.path = folder_.write("text.txt", "text")}};
  expect_says(error_of([&] { prepare_corpus(o); }), {"options.more", "options.system"});
}

}  // namespace
}  // namespace penstock
