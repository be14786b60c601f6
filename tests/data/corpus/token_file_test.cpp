#include "penstock/data/corpus/token_file.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <vector>

#include "penstock/base/atomic_files.h"
#include "penstock/data/corpus/token_file_writer.h"
#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::expect_says;

struct Contents {
  std::uint32_t vocab_size;
  std::vector<std::string> domains;
  std::vector<DocumentRecord> documents;
  std::vector<TokenId> tokens;
};

Contents sample(std::uint32_t vocab_size) {
  return {.vocab_size = vocab_size,
          .domains = {"news", "code"},
          .documents = {{0, 3, 9, 0, Split::kTrain},
                        {3, 2, 5, 1, Split::kTrain},
                        {5, 4, 4, 1, Split::kTest}},
          .tokens = {1, 2, 3, 4, 5, 6, 7, 8, static_cast<TokenId>(vocab_size - 1)}};
}

/// @param shard  tokens per shard; 0 writes one file
std::string write(const testing::TemporaryFolder& folder, const Contents& contents,
                  std::uint64_t shard = 0) {
  const std::string path = folder / "tokens.bin";
  const auto file = real_file_system().open(path, OpenMode::kTruncate);
  TokenSpool tokens(folder / "", contents.vocab_size);
  tokens.add(contents.tokens);
  write_token_file(
      *file, {contents.domains, contents.documents}, tokens,
      {.tokens = shard, .token_file = "tokens.bin", .open = [&](const std::string& name) {
         return real_file_system().open(folder / name, OpenMode::kTruncate);
       }});
  file->close();
  return path;
}

TEST(TokenFile, RoundTripsInBothWidths) {
  for (const std::uint32_t vocab_size : {256u, 65536u, 65537u, 4000000000u}) {
    const testing::TemporaryFolder folder;
    const auto contents = sample(vocab_size);
    const TokenFile file = TokenFile::open(write(folder, contents));
    EXPECT_EQ(file.token_width(), vocab_size <= 65536 ? 2 : 4);
    EXPECT_EQ(file.vocab_size(), vocab_size);
    EXPECT_EQ(file.domains(), contents.domains);
    std::vector<std::int64_t> tokens(9);
    file.read(0, tokens);
    for (std::size_t i = 0; i < tokens.size(); ++i)
      EXPECT_EQ(tokens[i], static_cast<std::uint32_t>(contents.tokens[i]));
    EXPECT_EQ(file.range(Split::kTrain).begin, 0);
    EXPECT_EQ(file.range(Split::kTrain).tokens, 5);
    EXPECT_EQ(file.range(Split::kValidation).tokens, 0);
    EXPECT_EQ(file.range(Split::kTest).begin, 5);
    EXPECT_EQ(file.range(Split::kTest).tokens, 4);
    EXPECT_EQ(file.documents()[1].bytes, 5u);
    const std::vector<std::size_t> expected = {0, 0, 0, 1, 1, 2, 2, 2, 2};
    for (std::int64_t i = 0; i < 9; ++i) EXPECT_EQ(file.document_at(i), expected[i]);
    EXPECT_NO_THROW(file.verify());
  }
}

/// Writes to the file itself, and sets its time to `later` seconds from now. Two writes within one
/// tick of the clock would have the same time.
void write_in_place(const std::string& path, const std::string& bytes, int later) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  const auto now = std::filesystem::last_write_time(path);
  std::filesystem::last_write_time(path, now + std::chrono::seconds(later));
}

TEST(TokenFile, ChangedWhileItIsInUse) {
  for (const std::uint64_t shard : {0u, 5u}) {  // one file, then shards of 5 and 4 tokens
    const testing::TemporaryFolder folder;
    const std::string path = write(folder, sample(256), shard);
    const std::string name = shard == 0 ? "tokens.bin" : "tokens-00002-of-00002.bin";
    const std::string tokens = folder / name, bytes = testing::read_bytes(tokens);
    int writes = 0;
    const auto change = [&](const std::string& to) { write_in_place(tokens, to, ++writes); };
    const TokenFile file = TokenFile::open(path);
    std::vector<std::int64_t> last(1);
    change(bytes);  // the same content, at another time
    file.read(8, last);
    EXPECT_EQ(last[0], 255);
    std::string other = bytes;
    other[bytes.find(std::string("\x06\0\x07\0", 4))] = 5;  // token 6 becomes token 5
    change(other);
    EXPECT_EQ(testing::read_bytes(tokens).size(), bytes.size());
    expect_says(error_of([&] { file.read(8, last); }),
                {name + " was changed while it was in use", "penstock data prepare"});
    change(bytes);
    file.read(8, last);
    EXPECT_EQ(last[0], 255);
    change("");
    expect_says(error_of([&] { file.read(8, last); }), {name, "and has 0 now"});
    // Files that take the place of the mapped one leave it as it was.
    change(bytes);
    const TokenFile again = TokenFile::open(path);
    std::filesystem::rename(folder.write("new", "none"), tokens);
    again.read(8, last);
    EXPECT_EQ(last[0], 255);
    std::filesystem::remove(tokens);
    again.read(8, last);
    EXPECT_EQ(last[0], 255);
  }
}

TEST(TokenFile, ShardsChangedWhileTheyAreInUse) {
  const testing::TemporaryFolder folder;
  const std::string path = write(folder, sample(256), 5);  // shards of 5 and 4 tokens
  const std::string first = folder / "tokens-00001-of-00002.bin",
                    second = folder / "tokens-00002-of-00002.bin";
  const std::string first_bytes = testing::read_bytes(first),
                    second_bytes = testing::read_bytes(second);
  const TokenFile file = TokenFile::open(path);
  const auto token = [&](std::int64_t position) {
    std::vector<std::int64_t> one(1);
    file.read(position, one);
    return one[0];
  };
  // The read of the first shard has checked the content of both. The read of the second does not
  // hash again: it would find that the first has other content by then.
  write_in_place(first, first_bytes, 1);
  write_in_place(second, second_bytes, 1);
  EXPECT_EQ(token(0), 1);
  std::string other = first_bytes;
  other[0] = 9;
  write_in_place(first, other, 2);
  EXPECT_EQ(token(8), 255);
  expect_says(error_of([&] { token(0); }),
              {"tokens-00001-of-00002.bin was changed while it was in use"});
  // Where both have another time, either may have the other content.
  write_in_place(second, second_bytes, 3);
  const std::string either = error_of([&] { token(8); });
  expect_says(either, {"tokens.bin", "its content was changed while it was in use"});
  EXPECT_EQ(either.find("-of-00002"), std::string::npos) << either;
  // Another size tells which one it is.
  write_in_place(first, first_bytes.substr(0, 4), 4);
  expect_says(error_of([&] { token(8); }),
              {"tokens-00001-of-00002.bin had 10 bytes and has 4 now"});
  write_in_place(first, first_bytes, 5);
  EXPECT_EQ(token(8), 255);
  EXPECT_EQ(token(0), 1);
}

TEST(TokenFile, TruncatedAnywhereIsOneClearError) {
  const testing::TemporaryFolder folder;
  const std::string path = write(folder, sample(256)), bytes = testing::read_bytes(path);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const std::string cut = folder.write("cut.bin", std::string_view(bytes).substr(0, length));
    expect_says(error_of([&] { TokenFile::open(cut); }),
                {"cut.bin", "not a usable token file", "penstock data prepare"});
  }
  const std::string longer = folder.write("longer.bin", bytes + "x");
  expect_says(error_of([&] { TokenFile::open(longer); }), {"longer.bin", "appended"});
}

TEST(TokenFile, AFlippedBitInAnyByteIsNoticed) {
  const testing::TemporaryFolder folder;
  const std::string path = write(folder, sample(256)), bytes = testing::read_bytes(path);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    const std::string name = folder.write("flip.bin", damaged);
    // open() does not check the tokens, because reading all of them at every start would be slow;
    // verify() does. Six bytes pad 9 tokens to a multiple of 8 and carry no data.
    const bool padding = at >= 88 + 18 && at < 88 + 24;
    if (!padding) expect_says(error_of([&] { TokenFile::open(name).verify(); }), {"flip.bin"});
  }
}

TEST(TokenFile, ForeignFilesAreRefused) {
  const testing::TemporaryFolder folder;
  const std::string text = folder.write("text.bin", std::string(1000, 'a'));
  expect_says(error_of([&] { TokenFile::open(text); }), {"text.bin", "magic"});
  expect_says(error_of([&] { TokenFile::open(folder / "missing.bin"); }), {"missing.bin"});
  std::filesystem::create_directory(folder / "folder");
  expect_says(error_of([&] { TokenFile::open(folder / "folder"); }), {"folder"});
}

TEST(TokenFile, TablesThatContradictThemselvesAreRefused) {
  const testing::TemporaryFolder folder;
  const auto refused = [&](auto change, std::string_view why) {
    auto contents = sample(256);
    change(contents);
    const std::string path = write(folder, contents);
    expect_says(error_of([&] { TokenFile::open(path); }), {"tokens.bin", why});
  };
  refused([](auto& c) { c.documents[1].begin = 2; }, "document 1 is out of place");
  refused([](auto& c) { c.documents[1].tokens = ~0ull; }, "document 1 is out of place");
  refused([](auto& c) { c.documents[0].tokens = 0; }, "document 0 is out of place");
  refused([](auto& c) { c.documents[2].domain = 2; }, "unknown domain");
  refused([](auto& c) { c.documents[1].split = static_cast<Split>(3); }, "impossible split");
  refused([](auto& c) { std::swap(c.documents[0].split, c.documents[2].split); },
          "impossible split");
  refused([](auto& c) { c.documents.pop_back(); }, "hold 5 of its 9 tokens");
}

TEST(TokenFile, ShardsHoldTheSameTokens) {
  for (const std::uint32_t vocab_size : {256u, 65537u})
    for (const std::uint64_t shard : {1u, 2u, 4u, 9u, 100u}) {
      const testing::TemporaryFolder one, several;
      const auto contents = sample(vocab_size);
      const TokenFile whole = TokenFile::open(write(one, contents));
      const TokenFile file = TokenFile::open(write(several, contents, shard));
      EXPECT_EQ(file.shards(), (9 + shard - 1) / shard);
      EXPECT_EQ(file.content_hash(), whole.content_hash());
      EXPECT_NO_THROW(file.verify());
      EXPECT_EQ(file.domains(), contents.domains);
      for (std::int64_t begin = 0; begin <= 9; ++begin)
        for (std::int64_t end = begin; end <= 9; ++end) {
          std::vector<std::int64_t> found(static_cast<std::size_t>(end - begin)), wanted(found);
          file.read(begin, found);
          whole.read(begin, wanted);
          EXPECT_EQ(found, wanted) << begin << " to " << end;
        }
    }
}

TEST(TokenFile, AShardThatIsDamagedOrMissingIsNamed) {
  const testing::TemporaryFolder folder;
  const std::string path = write(folder, sample(256), 4),
                    second = folder / "tokens-00002-of-00003.bin";
  const std::string bytes = testing::read_bytes(second);
  ASSERT_EQ(bytes.size(), 8u);
  const auto says = [&] { return error_of([&] { TokenFile::open(path).verify(); }); };
  folder.write("tokens-00002-of-00003.bin", bytes.substr(0, 6));
  expect_says(says(), {"tokens-00002-of-00003.bin", "4 tokens of 2 bytes", "6 bytes"});
  folder.write("tokens-00002-of-00003.bin", bytes + "more");
  expect_says(says(), {"tokens-00002-of-00003.bin", "12 bytes"});
  folder.write("tokens-00002-of-00003.bin", std::string(8, '\1'));
  expect_says(says(), {"tokens.bin", "its tokens are damaged"});
  std::filesystem::remove(second);
  expect_says(says(), {"tokens-00002-of-00003.bin"});
  folder.write("tokens-00002-of-00003.bin", bytes);
  EXPECT_NO_THROW(TokenFile::open(path).verify());
  // A table of shards with a wrong number of tokens in a shard.
  std::string table = testing::read_bytes(path);
  table[table.size() - 8] = 2;
  folder.write("tokens.bin", table);
  expect_says(says(), {"tokens-00003-of-00003.bin", "2 tokens"});
}

TEST(TokenFile, IdsOutsideTheVocabularyAreRefusedWhenRead) {
  const testing::TemporaryFolder folder;
  auto bytes = testing::read_bytes(write(folder, sample(256)));
  bytes[88 + 1] = 7;  // token 0's high byte: 1 + 7·256
  const TokenFile file = TokenFile::open(folder.write("ids.bin", bytes));
  std::vector<std::int64_t> tokens(2);
  expect_says(error_of([&] { file.read(0, tokens); }), {"ids.bin", "1793", "256"});
  EXPECT_NO_THROW(file.read(1, tokens));
}

}  // namespace
}  // namespace penstock
