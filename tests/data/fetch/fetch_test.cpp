// Checksums and the table of files. tests/cli/fetch_test.py tests downloading against a server.
#include "penstock/data/fetch/fetch.h"

#include <set>

#include "penstock/base/file_system.h"
#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::expect_says;

// The examples of FIPS 180-4, and sums printed by coreutils' sha256sum and sha1sum.
TEST(Sha, GivesThePublishedDigests) {
  const auto sha256 = [](std::string_view text) {
    return sha_of(bytes_of(text), ShaKind::kSha256);
  };
  const auto sha1 = [](std::string_view text) { return sha_of(bytes_of(text), ShaKind::kSha1); };
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha1("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(sha1(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  // Two blocks, and a text whose padding needs a second block.
  const std::string_view two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
  EXPECT_EQ(sha256(two), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha1(two), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  const std::string million(1000000, 'a');
  EXPECT_EQ(sha256(million), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(sha1(million), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

TEST(Sha, OfAFileIsThatOfItsBytes) {
  const testing::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 300000; ++i) text += std::to_string(i);  // more than one buffer
  const std::string path = folder.write("f", text);
  EXPECT_EQ(sha_of_file(path, ShaKind::kSha256), sha_of(bytes_of(text), ShaKind::kSha256));
  expect_says(error_of([&] { sha_of_file(folder / "no", ShaKind::kSha1); }), {"no", "cannot read"});
}

TEST(PublicDatasets, EveryEntryCitesWhereItIsFrom) {
  std::set<std::string_view> names;
  for (const auto& dataset : public_datasets()) {
    EXPECT_TRUE(names.insert(dataset.name).second);
    EXPECT_FALSE(dataset.urls.empty() || dataset.url_source.empty()) << dataset.name;
    for (const auto url : dataset.urls) EXPECT_TRUE(url.starts_with("http")) << url;
    EXPECT_EQ(dataset.sum.empty(), dataset.sum_source.empty()) << dataset.name;
    const std::size_t digits = dataset.sum_kind == ShaKind::kSha256 ? 64 : 40;
    EXPECT_TRUE(dataset.sum.empty() || dataset.sum.size() == digits) << dataset.name;
    const bool of_task = dataset.prepare.find("--task-data DIR") != dataset.prepare.npos;
    EXPECT_TRUE(of_task || dataset.prepare.find("FILE") != dataset.prepare.npos) << dataset.name;
  }
  for (const char* name : {"enwik8", "wikitext-103", "text8"})
    EXPECT_EQ(public_dataset(name).name, name);
  expect_says(error_of([] { public_dataset("c4"); }), {"c4", "enwik8, wikitext-103, text8"});
}

TEST(Fetch, RefusesImpossibleSumsAndOtherFiles) {
  const testing::TemporaryFolder folder;
  expect_says(
      error_of([&] { fetch_dataset({.dataset = "text8", .out = folder / "", .sha256 = "ab"}); }),
      {"options.sha256", "64 hexadecimal"});
  folder.write("text8.zip", "something else");
  expect_says(error_of([&] { fetch_dataset({.dataset = "text8", .out = folder / ""}); }),
              {"text8.zip", "is there already", "6c70299b93b7e1f927b42cd8f6ac1a31547c7a2e"});
  EXPECT_EQ(testing::read_bytes(folder / "text8.zip"), "something else");
}

}  // namespace
}  // namespace penstock
