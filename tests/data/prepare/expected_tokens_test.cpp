#include "penstock/data/prepare/expected_tokens.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/data/tokenizer.h"
#include "tests/data/packed_files.h"
#include "tests/data/support.h"

namespace penstock {
namespace {

/// A token for each line.
class LineTokenizer : public Tokenizer {
 public:
  std::string spec() const override { return "lines"; }
  std::int64_t vocab_size() const override { return 1; }
  TokenId end_of_document() const override { return -1; }
  void encode(std::string_view text, std::vector<TokenId>& ids) const override {
    for (const char c : text)
      if (c == '\n') ids.push_back(0);
  }
  void decode(TokenId, std::string&) const override {}
  std::map<std::string, std::string> files() const override { return {}; }
};

const LineTokenizer kLines;

std::string repeated(const std::string& line, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += line;
  return out;
}

TEST(ExpectedTokens, OfSmallTextAreCountedInAllOfIt) {
  const testing::TemporaryFolder folder;
  folder.write("in/a.txt", repeated("ten bytes\n", 30));
  folder.write("in/b.jsonl", repeated("{\"text\" : \"five\\n\"}\n", 40));
  folder.write("in/.hidden", "no");
  EXPECT_EQ(expected_tokens(folder / "in", nullptr), 30 * 10 + 40 * 5);
  EXPECT_NEAR(expected_tokens(folder / "in/a.txt", &kLines), 30, 1e-9);
  testing::expect_says(
      testing::error_of([&] { expected_tokens(folder.write("none.txt", " \n"), nullptr); }),
      {"holds no text"});
}

/// A model's weights are larger than what is read of a text.
TEST(ExpectedTokens, AModelOfAnySizeIsRefused) {
  const testing::TemporaryFolder folder;
  folder.write("moe/config.json", "{}");
  folder.write("moe/model.safetensors", std::string(4000, '\xff'));
  for (const std::uintmax_t most_read : {1600u, 16000u})
    testing::expect_says(
        testing::error_of([&] { expected_tokens(folder / "moe", nullptr, most_read); }),
        {"moe' is a model, which holds no text"});
}

TEST(ExpectedTokens, OfLargeTextAreThoseOfASampleByTheTokenizer) {
  const testing::TemporaryFolder folder;
  // 4,000 stored bytes of plain text. 1,600 bytes may be read.
  const std::string plain = folder.write("in/a.txt", repeated("ten bytes\n", 400));
  EXPECT_NEAR(expected_tokens(plain, nullptr, 1600), 4000, 1e-9);
  EXPECT_NEAR(expected_tokens(plain, &kLines, 1600), 400, 1e-9);
  // Of the 20 bytes of each line of JSON, 5 are text.
  const std::string json = folder.write("in/b.jsonl", repeated("{\"text\" : \"five\\n\"}\n", 200));
  EXPECT_NEAR(expected_tokens(json, nullptr, 1600), 1000, 1e-9);
  EXPECT_NEAR(expected_tokens(json, &kLines, 1600), 200, 1e-9);
  // Both files are picked 8 times.
  EXPECT_NEAR(expected_tokens(folder / "in", &kLines, 1600), 600, 1e-9);
}

TEST(ExpectedTokens, OfLargePackedTextAreNotThoseOfItsStoredBytes) {
  const testing::TemporaryFolder folder;
  const std::string text = repeated("a line that packs well\n", 20000);
  using Members = std::vector<std::pair<std::string, std::string>>;
  const std::string path = testing::pack(folder / "a.txt.gz", ARCHIVE_FORMAT_RAW,
                                         ARCHIVE_FILTER_GZIP, Members{{"a.txt", text}});
  EXPECT_NEAR(expected_tokens(path, nullptr, 160), static_cast<double>(text.size()), 1e-3);
  EXPECT_NEAR(expected_tokens(path, &kLines, 160), 20000, 5);
}

}  // namespace
}  // namespace penstock
