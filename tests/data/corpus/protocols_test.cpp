// Tokenizers and splits of published protocols. protocol_numbers.py computes the real files'
// counts.
#include "penstock/data/corpus/protocols.h"

#include <map>
#include <nlohmann/json.hpp>

#include "penstock/data/text_files.h"
#include "penstock/data/tokenizers/from_files.h"
#include "penstock/data/tokenizers/from_spec.h"
#include "tests/data/prepared_corpus.h"
#include "tests/data/support.h"

namespace penstock {
namespace {

using testing::error_of;
using testing::expect_says;
using testing::ids_of_split;
using testing::shared_data;
using testing::text_of_split;
using Ids = std::vector<TokenId>;

std::shared_ptr<const Tokenizer> made(const std::string& spec,
                                      std::vector<std::string_view> texts) {
  return make_tokenizer(spec, texts);
}

std::shared_ptr<const Tokenizer> reloaded(const Tokenizer& tokenizer,
                                          const testing::TemporaryFolder& folder) {
  tokenizer.save(folder / "");
  return load_tokenizer(folder / "");
}

TEST(ByteVocabulary, IsOrderedByFrequencyThenFirstOccurrence) {
  const testing::TemporaryFolder folder;
  // Counts: b 3, newline 3, a 2, c 2, d 1.
  const auto with = made("byte-vocabulary", {"ab\nbc\n", "\nbcad"});
  EXPECT_EQ(with->spec(), "byte-vocabulary");
  EXPECT_EQ(with->decode(Ids{0, 1, 2, 3, 4}), "b\nacd");
  EXPECT_EQ(with->end_of_document(), -1);
  const auto without = made("byte-vocabulary-no-newlines", {"ab\nbc\n", "\nbcad"});
  EXPECT_EQ(without->vocab_size(), 4);
  EXPECT_EQ(without->encode("\na\n\nd"), (Ids{1, 3}));
  EXPECT_EQ(without->decode(Ids{1, 3}), "ad");
  for (const auto& tokenizer : {with, without}) {
    const auto back = reloaded(*tokenizer, folder);
    EXPECT_EQ(back->spec(), tokenizer->spec());
    EXPECT_EQ(back->files(), tokenizer->files());
    EXPECT_EQ(back->encode("abcd\n"), tokenizer->encode("abcd\n"));
    EXPECT_EQ(back->token_bytes(), std::vector<std::int32_t>(back->token_bytes().size(), 1));
    expect_says(error_of([&] { back->encode("abx"); }), {"120", "offset 2"});
    EXPECT_THROW(back->decode(Ids{-1}), Error);
    EXPECT_THROW(back->decode(Ids{5}), Error);
  }
  EXPECT_THROW(made("byte-vocabulary-no-newlines", {"\n"}), Error);
}

/// Returns a function that expects the tokenizer's file to be refused with another value at a
/// pointer.
auto refusal_of_changes(const Tokenizer& tokenizer) {
  return [good = nlohmann::json::parse(tokenizer.files().at("tokenizer.json"))](
             const char* pointer, const nlohmann::json& value) {
    const testing::TemporaryFolder folder;
    auto bad = good;
    bad[nlohmann::json::json_pointer(pointer)] = value;
    folder.write("tokenizer.json", bad.dump());
    testing::expect_error([&] { load_tokenizer(folder / ""); }, {"tokenizer.json"});
  };
}

TEST(ByteVocabulary, DamagedFilesAreRefused) {
  const auto refused = refusal_of_changes(*made("byte-vocabulary-no-newlines", {"abc"}));
  refused("/model/vocab", {{"a", 0}, {"b", 0}});
  refused("/model/vocab", {{"a", 0}, {"b", 2}});
  refused("/model/vocab", {{"a", 0}, {"ab", 1}});
  refused("/model/vocab", {{"a", 0}, {"\xc4\x8a", 1}});  // the byte-level character for a newline
  refused("/model/vocab", {{"a", -1}});
  refused("/model/vocab", nlohmann::json::object());
  refused("/model/vocab", "abc");
  refused("/model/merges", {"a b"});
  refused("/normalizer", {{"type", "Lowercase"}});
}

TEST(Words, AreWhatPythonSplitsAndLinesEnd) {
  const testing::TemporaryFolder folder;
  // Counts: b 3, The 2, the 1, a 1. U+00A0 and a tab separate words too.
  const auto words = made("words", {"The b\n\nb\xc2\xa0the\tb", "a The"});
  EXPECT_EQ(words->vocab_size(), 5);
  EXPECT_EQ(words->encode("b The the a"), (Ids{1, 2, 3, 4, 0}));
  EXPECT_EQ(words->encode(" b \n\n a"), (Ids{1, 0, 0, 4, 0}));
  EXPECT_EQ(words->encode("b\n"), (Ids{1, 0}));
  EXPECT_EQ(words->encode(""), Ids{});
  // Text in WikiText's layout decodes to itself.
  for (const std::string_view text : {" b The \n", " \n", " a \n \n the b \n"})
    EXPECT_EQ(words->decode(words->encode(text)), text);
  EXPECT_EQ(words->token_bytes(), (std::vector<std::int32_t>{2, 2, 4, 4, 2}));
  const auto back = reloaded(*words, folder);
  EXPECT_EQ(back->spec(), "words");
  EXPECT_EQ(back->files(), words->files());
  EXPECT_EQ(back->encode("b The \n a"), words->encode("b The \n a"));
  expect_says(error_of([&] { back->encode("b other"); }), {"'other'", "offset 2", "<unk>"});
  expect_says(error_of([&] { back->encode("b <eos>"); }), {"<eos>", "offset 2"});
  EXPECT_THROW(back->decode(Ids{5}), Error);
  // If the text contains <unk>, unknown words become <unk>.
  const auto unknown = made("words", {"<unk> x"});
  EXPECT_EQ(unknown->encode("x y"), (Ids{2, 1, 0}));
}

TEST(Words, DamagedFilesAreRefused) {
  const auto refused = refusal_of_changes(*made("words", {"a b"}));
  refused("/model/vocab", {{"<eos>", 0}, {"a", 0}});
  refused("/model/vocab", {{"<eos>", 0}, {"a", 7}});
  refused("/model/vocab", {{"<eos>", 1}, {"a", 0}});
  refused("/model/vocab", {{"<eos>", 0}, {"", 1}});
  refused("/model/vocab", nlohmann::json::object());
  refused("/model/vocab", {1, 2});
  refused("/normalizer", nullptr);
}

class Protocols : public ::testing::Test {
 protected:
  PrepareOptions options(const std::string& protocol, const std::string& input) const {
    return {.inputs = {{.path = input}}, .protocol = protocol, .out = folder_ / "corpus"};
  }
  Corpus prepared(const PrepareOptions& options) {
    result_ = prepare_corpus(options);
    return Corpus::open(options.out);
  }
  testing::TemporaryFolder folder_;
  PrepareResult result_;
};

TEST_F(Protocols, Enwik8IsCutAtExactBytes) {
  // 20 bytes. The cut after byte 18 splits the last é.
  const std::string text = "<a>\n12345678901\xc3\xa9\xc3\xa9!";
  ASSERT_EQ(text.size(), 20u);
  auto corpus = prepared(options("enwik8", folder_.write("text", text)));
  EXPECT_EQ(text_of_split(corpus, Split::kTrain), text.substr(0, 18));
  EXPECT_EQ(text_of_split(corpus, Split::kValidation), text.substr(18, 1));
  EXPECT_EQ(text_of_split(corpus, Split::kTest), text.substr(19));
  EXPECT_EQ(corpus.vocab_size(), 256);
  EXPECT_EQ(nlohmann::json::parse(testing::read_bytes(folder_ / "corpus/corpus.json"))["protocol"],
            "enwik8");
  corpus = prepared(options("enwik8-no-newlines", folder_ / "text"));
  EXPECT_EQ(text_of_split(corpus, Split::kTrain), "<a>12345678901\xc3\xa9\xc3");
  // The vocabulary includes the bytes of the held-out parts, but no newline.
  EXPECT_EQ(corpus.vocab_size(), 16);
  EXPECT_EQ(corpus.count(Split::kTrain).bytes, 17);
}

TEST_F(Protocols, AnOddEndAndPartsOfNewlinesAlone) {
  // 21 bytes: 18 for training (18.9 rounded down), one for validation, two for testing.
  auto corpus = prepared(options("text8", folder_.write("text", "abcdefghijklmnopqrstu")));
  EXPECT_EQ(text_of_split(corpus, Split::kTrain), "abcdefghijklmnopqr");
  EXPECT_EQ(text_of_split(corpus, Split::kValidation), "s");
  EXPECT_EQ(text_of_split(corpus, Split::kTest), "tu");
  corpus = prepared(options("enwik8-no-newlines", folder_.write("lines", "abcdefghijklmnopqr\nx")));
  EXPECT_EQ(corpus.count(Split::kValidation).documents, 0);
  EXPECT_EQ(text_of_split(corpus, Split::kTest), "x");
}

TEST_F(Protocols, WikitextGoesByFileNames) {
  folder_.write("wiki/wiki.train.tokens", " \n the <unk> gate \n the pen \n");
  folder_.write("wiki/wiki.valid.tokens", " the pen stock \n");
  folder_.write("wiki/wiki.test.tokens", " gate \n \n");
  folder_.write("wiki/README.txt", "about");
  const auto corpus = prepared(options("wikitext", folder_ / "wiki"));
  EXPECT_EQ(corpus.domains(), std::vector<std::string>{"wiki"});
  EXPECT_EQ(corpus.vocab_size(), 5);
  EXPECT_EQ(text_of_split(corpus, Split::kTrain), " \n the <unk> gate \n the pen \n");
  EXPECT_EQ(text_of_split(corpus, Split::kValidation), " the pen <unk> \n");
  EXPECT_EQ(ids_of_split(corpus, Split::kTest).size(), 3u);
  EXPECT_EQ(corpus.count(Split::kTrain).bytes, 29);
  ASSERT_EQ(result_.notes.size(), 1u);
  expect_says(result_.notes[0], {"left out", "README.txt"});
  folder_.write("none/notes.txt", "x");
  expect_says(error_of([&] { prepare_corpus(options("wikitext", folder_ / "none")); }),
              {"no file is for training", "train.txt"});
  // The same files under other names, each with its split given.
  auto named = options("wikitext", folder_.write("a.txt", " the <unk> \n"));
  named.inputs[0].split = Split::kTrain;
  named.inputs.push_back({.path = folder_.write("b.txt", "gate"), .split = Split::kTest});
  EXPECT_EQ(text_of_split(prepared(named), Split::kTest), " <unk> \n");
}

TEST_F(Protocols, WordsAreCutBetweenLines) {
  auto o = options("", folder_.write("text", "one two\nthree four\nfive six\n"));
  o.tokenizer = "words";
  o.split = "contiguous:0.5,0.5,0";
  // The middle, byte 13, is within "three", so this whole line goes to training. The word "five" is
  // then unknown, and the error says so.
  expect_says(error_of([&] { prepare_corpus(o); }), {"text", "'five'", "<unk>"});
  o.inputs = {{.path = folder_.write("text", "one two\n<unk> four\nfive six\n")}};
  const auto corpus = prepared(o);
  EXPECT_EQ(text_of_split(corpus, Split::kTrain), " one two \n <unk> four \n");
  EXPECT_EQ(text_of_split(corpus, Split::kValidation), " <unk> <unk> \n");
}

TEST_F(Protocols, MistakesAreNamed) {
  const std::string text = folder_.write("text", "some text");
  expect_says(error_of([&] { prepare_corpus(options("enwik9", text)); }),
              {"enwik9", "enwik8, enwik8-no-newlines, text8, wikitext"});
  auto o = options("", text);
  o.tokenizer = "words";
  o.split = "bytes:0.9,0.1,0";
  expect_says(error_of([&] { prepare_corpus(o); }), {"bytes:0.9,0.1,0", "contiguous:"});
  auto system = options("enwik8", text);
  system.inputs.clear();
  system.system = true;
  expect_says(error_of([&] { prepare_corpus(system); }), {"options.system"});
  EXPECT_THROW(tokenizer_traits("words:5"), Error);
}

TEST_F(Protocols, RealEnwik8) {
  const std::string input = shared_data("lm/enwik8/enwik8_0_3500000.gz");
  if (input.empty()) GTEST_SKIP() << "missing data: enwik8";
  auto corpus = prepared(options("enwik8", input));
  EXPECT_EQ(corpus.count(Split::kTrain).tokens, 3150000);
  EXPECT_EQ(corpus.count(Split::kValidation).tokens, 175000);
  EXPECT_EQ(corpus.count(Split::kTest).tokens, 175000);
  corpus = prepared(options("enwik8-no-newlines", input));
  EXPECT_EQ(corpus.vocab_size(), 199);
  for (const auto& [split, count] : std::map<Split, std::int64_t>{
           {Split::kTrain, 3114053}, {Split::kValidation, 173460}, {Split::kTest, 173380}}) {
    EXPECT_EQ(corpus.count(split).tokens, count);
    EXPECT_EQ(corpus.count(split).bytes, count);
  }
  EXPECT_EQ(corpus.tokenizer().decode(Ids{0, 1, 2, 3, 4, 5, 6, 7}), " etaionr");
  EXPECT_EQ(corpus.tokenizer().decode(Ids{195, 196, 197, 198}), "\xd2\xc6\xef\xd3");
}

TEST_F(Protocols, RealWikitext2) {
  if (shared_data("lm/wikitext-2").empty()) GTEST_SKIP() << "missing data: WikiText-2";
  const auto corpus = prepared(options("wikitext", shared_data("lm/wikitext-2")));
  EXPECT_EQ(corpus.vocab_size(), 33278);
  const std::map<Split, std::pair<std::int64_t, std::int64_t>> counts = {
      {Split::kTrain, {2088628, 10797148}},
      {Split::kValidation, {217646, 1121681}},
      {Split::kTest, {245569, 1256449}}};
  for (const auto& [split, count] : counts) {
    EXPECT_EQ(corpus.count(split).tokens, count.first);
    EXPECT_EQ(corpus.count(split).bytes, count.second);
  }
  EXPECT_EQ(corpus.tokenizer().decode(Ids{1, 2, 3, 4, 5, 6, 33276, 33277, 0}),
            " the , . of <unk> and Nests gallinae \n");
  std::string text;
  read_text_file(shared_data("lm/wikitext-2/valid.txt.gz"),
                 [&](const std::string&, std::string_view content) { text = content; });
  EXPECT_EQ(text_of_split(corpus, Split::kValidation), text);
}

}  // namespace
}  // namespace penstock
