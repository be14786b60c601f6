#include "penstock/data/tokenizer.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "penstock/data/tokenizers/from_files.h"
#include "penstock/data/tokenizers/from_spec.h"
#include "penstock/data/tokenizers/sentencepiece_tokenizer.h"
#include "tests/data/sentencepiece_usable.h"
#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::expect_says;

/// Text with enough different words to learn a small vocabulary.
std::string training_text() {
  std::string text;
  for (int i = 0; i < 600; ++i)
    text += "def function_" + std::to_string(i * 37 % 101) + "(x):\n    return the value of " +
            std::string(1, static_cast<char>('a' + i % 26)) + "er, going on to turbine " +
            std::to_string(i) + "\n\n";
  return text;
}

const std::vector<std::string>& odd_texts() {
  static const std::vector<std::string> texts = {
      "",
      " ",
      "\n",
      "a",
      "  two leading and two trailing  ",
      "tabs\tand\t\ttabs\n\tindented",
      "windows\r\nline ends\r\n\r\n",
      "no newline at the end",
      "\n\n\nthree newlines\n\n\n",
      "emoji 🙂🙃 and flags 🇩🇰, family 👨‍👩‍👧",
      "Ελληνικά, 日本語, עברית, नमस्ते",
      "a mark \xe2\x96\x81 that means space, twice \xe2\x96\x81\xe2\x96\x81, and \xe2\x96\x85",
      "combining e\xcc\x81 against \xc3\xa9, ligature \xef\xac\x81, full width \xef\xbc\xa1",
      "control \x01\x02\x7f and </s> <unk> <s> <0x41>",
      std::string(5000, 'x') + " " + std::string(5000, ' ') + "end",
  };
  return texts;
}

void expect_lossless(const Tokenizer& tokenizer) {
  const auto token_bytes = tokenizer.token_bytes();
  for (const auto& text : odd_texts()) {
    const auto ids = tokenizer.encode(text);
    EXPECT_EQ(tokenizer.decode(ids), text);
    std::size_t bytes = 0;
    for (const TokenId id : ids) {
      ASSERT_GE(id, 0);
      ASSERT_LT(id, tokenizer.vocab_size());
      EXPECT_NE(id, tokenizer.end_of_document()) << text;
      bytes += static_cast<std::size_t>(token_bytes[static_cast<std::size_t>(id)]);
    }
    EXPECT_EQ(bytes, text.size());
  }
  EXPECT_EQ(token_bytes[static_cast<std::size_t>(tokenizer.end_of_document())], 0);
}

TEST(BytesTokenizer, IdsAreBytes) {
  const auto tokenizer = make_tokenizer("bytes", {});
  EXPECT_EQ(tokenizer->encode("Aé"), (std::vector<TokenId>{0x41, 0xc3, 0xa9}));
  EXPECT_EQ(tokenizer->vocab_size(), 256);
  EXPECT_EQ(tokenizer->end_of_document(), 0);
  expect_lossless(*tokenizer);
}

TEST(BytesTokenizer, NulEndsDocumentsUnlessToldOtherwise) {
  const std::string text("a\0b", 3);
  expect_says(error_of([&] { make_tokenizer("bytes", {})->encode(text); }),
              {"offset 1", "--no-eod"});
  const auto plain = make_tokenizer("bytes", {}, false);
  EXPECT_EQ(plain->end_of_document(), -1);
  EXPECT_EQ(plain->decode(plain->encode(text)), text);
  EXPECT_EQ(plain->token_bytes()[0], 1);
}

TEST(BytesTokenizer, FileIsAByteLevelVocabularyWithoutMerges) {
  const auto json =
      nlohmann::json::parse(make_tokenizer("bytes", {})->files().at("tokenizer.json"));
  const auto& vocab = json.at("model").at("vocab");
  EXPECT_EQ(vocab.size(), 256u);
  EXPECT_EQ(json.at("model").at("merges").size(), 0u);
  // From GPT-2's published table: space is U+0120, newline U+010A, byte 0xAD is U+0143.
  EXPECT_EQ(vocab.at("A"), 0x41);
  EXPECT_EQ(vocab.at("\u0120"), 0x20);
  EXPECT_EQ(vocab.at("\u010a"), 0x0a);
  EXPECT_EQ(vocab.at("\u0143"), 0xad);
  EXPECT_EQ(vocab.at("\u00ff"), 0xff);
  EXPECT_EQ(vocab.at("<|endoftext|>"), 0);
}

TEST(BytesTokenizer, SavesAndLoads) {
  for (const bool end_of_document : {true, false}) {
    const testing::TemporaryFolder folder;
    make_tokenizer("bytes", {}, end_of_document)->save(folder / "");
    const auto loaded = load_tokenizer(folder / "");
    EXPECT_EQ(loaded->spec(), "bytes");
    EXPECT_EQ(loaded->end_of_document(), end_of_document ? 0 : -1);
  }
}

TEST(Tokenizers, DamagedFilesAreErrors) {
  const testing::TemporaryFolder folder;
  expect_says(error_of([&] { load_tokenizer(folder / ""); }), {"no tokenizer"});
  const std::string good = make_tokenizer("bytes", {})->files().at("tokenizer.json");
  for (const std::string& bad :
       {std::string(), std::string("{}"), std::string("[1]"), good.substr(0, 500),
        std::string(R"({"model":{"vocab":{"a":0},"merges":[]}})"),
        std::string(R"({"model":{"vocab":7,"merges":[]}})"), std::string(R"({"model":7})")}) {
    folder.write("tokenizer.json", bad);
    expect_says(error_of([&] { load_tokenizer(folder / ""); }), {"tokenizer.json"});
  }
}

TEST(Tokenizers, UnknownSpecsSayWhatIsKnown) {
  for (const char* spec : {"", "byte", "bytes:3", "wordpiece:100", "bpe", "bpe:", "bpe:x",
                           "bpe:4096x", "bpe:-5", "bpe:100", "unigram:99999999999999999999"})
    expect_says(error_of([&] { tokenizer_traits(spec); }), {"tokenizer", spec});
  EXPECT_NO_THROW(tokenizer_traits("unigram:4096"));
}

class SentencePiece : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!testing::sentencepiece_usable()) GTEST_SKIP() << "built with AddressSanitizer";
  }
};

TEST_P(SentencePiece, LosesNothing) {
  const std::string text = training_text();
  const std::vector<std::string_view> texts = {text};
  const auto tokenizer = make_tokenizer(GetParam(), texts);
  EXPECT_EQ(tokenizer->spec(), GetParam());
  EXPECT_EQ(tokenizer->vocab_size(), 400);
  expect_lossless(*tokenizer);
  // The tokenizer learned merges: there are fewer tokens than bytes.
  EXPECT_LT(tokenizer->encode(text).size(), text.size() * 3 / 4);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST_P(SentencePiece, SavesLoadsAndRepeats) {
  const std::string text = training_text();
  const std::vector<std::string_view> texts = {text};
  const auto tokenizer = make_tokenizer(GetParam(), texts);
  EXPECT_EQ(tokenizer->files(), make_tokenizer(GetParam(), texts)->files());
  const testing::TemporaryFolder folder;
  tokenizer->save(folder / "");
  const auto loaded = load_tokenizer(folder / "");
  EXPECT_EQ(loaded->spec(), GetParam());
  EXPECT_EQ(loaded->encode(text), tokenizer->encode(text));
}

TEST_P(SentencePiece, TruncatedModelsDoNotCrash) {
  const std::string text = training_text();
  const std::vector<std::string_view> texts = {text};
  const std::string model = make_tokenizer(GetParam(), texts)->files().at("tokenizer.model");
  // A cut between two fields leaves a valid smaller model, which must work or give an error.
  for (std::size_t length = 0; length < model.size(); length += 97) {
    try {
      load_sentencepiece_tokenizer(model.substr(0, length), "cut.model")->encode("text");
    } catch (const Error& error) {
      expect_says(error.what(), {"cut.model"});
    }
  }
}

/// A model's piece as a protocol buffer: its text, and its type if it is not the default.
std::string piece_bytes(const std::string& text, bool unknown) {
  const std::string type = unknown ? "\x18\x02" : "";
  const std::string field = '\n' + std::string(1, static_cast<char>(text.size())) + text + type;
  return '\n' + std::string(1, static_cast<char>(field.size())) + field;
}

TEST(SentencePieceFiles, WhatTheLibraryThrowsIsAnError) {
  if (!testing::sentencepiece_usable()) GTEST_SKIP() << "built with AddressSanitizer";
  const std::string unknown = piece_bytes("<unk>", true);
  EXPECT_NO_THROW(load_sentencepiece_tokenizer(unknown + piece_bytes("a", false), "good.model"));
  // The library's trie ends a piece at its first NUL, and the library throws for an empty piece.
  const std::string nul = piece_bytes(std::string("\0a", 2), false);
  expect_says(error_of([&] { load_sentencepiece_tokenizer(unknown + nul, "nul.model"); }),
              {"nul.model", "not a usable SentencePiece model"});
}

TEST_P(SentencePiece, VocabularyTooLargeForTheText) {
  const std::string text = "a short text\n";
  const std::vector<std::string_view> texts = {text};
  const std::string kind = std::string(GetParam()).substr(0, std::string(GetParam()).find(':'));
  expect_says(error_of([&] { make_tokenizer(kind + ":4096", texts); }),
              {kind + ":4096", "too large"});
}

INSTANTIATE_TEST_SUITE_P(Kinds, SentencePiece, ::testing::Values("bpe:400", "unigram:400"),
                         [](const auto& info) { return std::string(info.param).substr(0, 3); });

}  // namespace
}  // namespace penstock
