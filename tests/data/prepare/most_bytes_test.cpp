#include "penstock/data/prepare/most_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/base/error_of.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::expect_says;

/// One hundred documents of 10 bytes in "a" and fifty of 20 in "b", interleaved and numbered.
std::vector<Document> two_domains() {
  std::vector<Document> out;
  for (int i = 0; i < 150; ++i) {
    const bool a = i % 3 != 0;
    std::string text = std::to_string(1000 + i);
    text.resize(a ? 10 : 20, '.');
    out.push_back({.text = text, .domain = a ? "a" : "b"});
  }
  return out;
}

std::vector<std::string> texts(const std::vector<Document>& documents) {
  std::vector<std::string> out;
  for (const Document& document : documents) out.emplace_back(document.text);
  return out;
}

std::int64_t bytes_in(const std::vector<Document>& documents, const std::string& domain) {
  std::int64_t sum = 0;
  for (const Document& document : documents)
    if (document.domain == domain) sum += std::ssize(document.text);
  return sum;
}

std::vector<Document> kept(std::int64_t bytes, std::uint64_t seed) {
  std::vector<Document> documents = two_domains();
  keep_most_bytes(documents, bytes, seed);
  return documents;
}

TEST(MostBytes, KeepsEachDomainsShare) {
  // 2,000 bytes, half in each domain. A limit of 400 leaves 200 bytes each: 20 of "a", 10 of "b".
  const auto documents = kept(400, 1);
  EXPECT_EQ(bytes_in(documents, "a"), 200);
  EXPECT_EQ(bytes_in(documents, "b"), 200);
  EXPECT_EQ(documents.size(), 30u);
  // A limit of 410 leaves 205 bytes each, and no further document fits.
  EXPECT_EQ(kept(410, 1).size(), 30u);
}

TEST(MostBytes, KeepsTheOrderAndIsDrawnBySeed) {
  const auto one = texts(kept(400, 1)), again = texts(kept(400, 1)), other = texts(kept(400, 2));
  EXPECT_EQ(one, again);
  EXPECT_NE(one, other);
  EXPECT_TRUE(std::ranges::is_sorted(one));  // the texts begin with their numbers
}

TEST(MostBytes, ASmallerTextIsPartOfALargerOne) {  // all documents of a domain are as long
  const auto small = texts(kept(400, 1)), large = texts(kept(800, 1));
  EXPECT_TRUE(std::ranges::includes(large, small));
}

TEST(MostBytes, LeavesATextAloneThatIsSmallEnough) {
  std::vector<Document> documents = two_domains();
  EXPECT_TRUE(keep_most_bytes(documents, 2000, 1).empty());
  EXPECT_EQ(documents.size(), 150u);
}

TEST(MostBytes, PassesOverWhatDoesNotFitAndSaysWhichDomainIsGone) {
  std::vector<Document> documents = {{.text = std::string(90, 'x'), .domain = "long"},
                                     {.text = std::string(70, 'y'), .domain = "mixed"},
                                     {.text = std::string(20, 'z'), .domain = "mixed"}};
  const auto notes = keep_most_bytes(documents, 60, 1);  // 30 bytes for each domain
  ASSERT_EQ(documents.size(), 1u);
  EXPECT_EQ(std::string_view(documents[0].text)[0], 'z');
  ASSERT_EQ(notes.size(), 2u);
  expect_says(notes[0], {"domain long dropped"});
  expect_says(notes[1], {"20 of 180 bytes"});
}

TEST(MostBytes, HeldOutTextStaysAndDoesNotCount) {
  std::vector<Document> documents = two_domains();
  documents.push_back({.text = std::string(5000, 'v'), .domain = "a", .split = Split::kValidation});
  keep_most_bytes(documents, 400, 1);
  EXPECT_EQ(documents.size(), 31u);
  EXPECT_EQ(documents.back().text.size(), 5000u);
}

TEST(MostBytes, RefusesWhereNothingFits) {
  std::vector<Document> documents = {{.text = std::string(90, 'x'), .domain = "long"}};
  expect_says(error_of([&] { keep_most_bytes(documents, 60, 1); }),
              {"no document", "options.most_bytes = 60"});
}

}  // namespace
}  // namespace penstock
