#include "penstock/data/tokenizers/tokenizer_json.h"

#include <archive.h>
#include <archive_entry.h>

#include "penstock/data/tokenizers/from_files.h"
#include "penstock/data/tokenizers/from_spec.h"
#include "penstock/data/tokenizers/from_vocabulary.h"
#include "penstock/data/tokenizers/hugging_face_files.h"
#include "penstock/data/tokenizers/tokenizer_files.h"
#include "penstock/data/vocabulary.h"
#include "tests/data/tokenizers/vectors.h"

namespace penstock {
namespace {

using namespace testing;
using nlohmann::json;
using Files = std::map<std::string, std::string>;

/// The content of a .gz file.
std::string unpacked(const std::string& path) {
  archive* file = archive_read_new();
  archive_read_support_filter_gzip(file);
  archive_read_support_format_raw(file);
  archive_entry* entry = nullptr;
  std::string out;
  if (archive_read_open_filename(file, path.c_str(), 1 << 16) == ARCHIVE_OK &&
      archive_read_next_header(file, &entry) == ARCHIVE_OK) {
    std::string part(1 << 16, '\0');
    for (la_ssize_t got; (got = archive_read_data(file, part.data(), part.size())) > 0;)
      out.append(part, 0, static_cast<std::size_t>(got));
  }
  archive_read_free(file);
  return out;
}

std::shared_ptr<const Tokenizer> read_json(const json& root, const json& config = {}) {
  Files files = {{kBytesFile, root.dump()}};
  if (!config.is_null()) files[kTokenizerConfigFile] = config.dump();
  return read_tokenizer_json(files, "made.json");
}

/// A byte-level tokenizer of a few letters.
json small_bytes() {
  return json::parse(R"({
    "added_tokens": [{"id": 8, "content": "<end>", "special": true, "normalized": false}],
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "\u0120": 3, "ab": 4, "bc": 5,
              "abc": 6, "\u0120a": 7}, "merges": ["b c", "a b", "a bc", ["\u0120", "a"]]}})");
}

TEST(TokenizerJson, MergesByRankLeftmostFirst) {
  const auto tokenizer = read_json(small_bytes());
  // b+c is the first merge: a|b|c -> a|bc -> abc. The result ab|c never occurs.
  EXPECT_EQ(tokenizer->encode("abc"), (std::vector<TokenId>{6}));
  EXPECT_EQ(tokenizer->encode("abab c"), (std::vector<TokenId>{4, 4, 3, 2}));
  // The merge a|bc comes before Ġ|a.
  EXPECT_EQ(tokenizer->encode("c abc"), (std::vector<TokenId>{2, 3, 6}));
  EXPECT_EQ(tokenizer->vocab_size(), 9);
  expect_says(error_of([&] { tokenizer->encode("abd"); }), {"100", "made.json"});
}

TEST(TokenizerJson, SpecialTokensAreTextUnlessAskedFor) {
  json root = small_bytes();
  for (const char* more : {"<", ">", "e", "n", "d"})
    root["model"]["vocab"][more] = root["model"]["vocab"].size() + 1;
  const auto tokenizer = read_json(root, {{"eos_token", {{"content", "<end>"}}}});
  EXPECT_EQ(tokenizer->end_of_document(), 8);
  EXPECT_EQ(tokenizer->encode("a<end>b"), (std::vector<TokenId>{0, 9, 11, 12, 13, 10, 1}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a<end>b")), "a<end>b");
  EXPECT_EQ(tokenizer->encode_with_controls("a<end>b"), (std::vector<TokenId>{0, 8, 1}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode_with_controls("a<end>b")), "ab");
  root["added_tokens"][0]["lstrip"] = true;
  root["added_tokens"][0]["rstrip"] = true;
  EXPECT_EQ(read_json(root)->encode_with_controls("a <end>\n\tb"), (std::vector<TokenId>{0, 8, 1}));
}

TEST(TokenizerJson, SingleWordsAreNotFoundWithinWords) {
  json root = small_bytes();
  root["added_tokens"].push_back(
      {{"id", 5}, {"content", "bc"}, {"special", false}, {"normalized", false}});
  EXPECT_EQ(read_json(root)->encode("abc bc"), (std::vector<TokenId>{0, 5, 3, 5}));
  root["added_tokens"][1]["single_word"] = true;
  const auto tokenizer = read_json(root);
  EXPECT_EQ(tokenizer->encode("abc bc"), (std::vector<TokenId>{6, 3, 5}));
  // "bc" is part of a word, so b and c merge.
  EXPECT_EQ(tokenizer->encode("bca"), (std::vector<TokenId>{5, 0}));
  EXPECT_EQ(tokenizer->encode("bc bc"), (std::vector<TokenId>{5, 3, 5}));
  const auto vocabulary = tokenizer->vocabulary();
  ASSERT_TRUE(vocabulary);
  ASSERT_EQ(vocabulary->added.size(), 1u);
  EXPECT_TRUE(vocabulary->added[0].single_word);
  for (const char* text : {"abc bc", "bca", "bc"}) {
    EXPECT_EQ(make_tokenizer(*vocabulary)->encode(text), tokenizer->encode(text));
    EXPECT_EQ(read_tokenizer_json(hugging_face_files(*vocabulary), "written")->encode(text),
              tokenizer->encode(text));
  }
}

/// As in Phi-3: the normalizer writes the space marks; the end token is not special and strips the
/// white space after it.
json small_characters() {
  return json::parse(R"({
    "added_tokens": [
      {"id": 0, "content": "<unk>", "special": true, "normalized": false},
      {"id": 1, "content": "</s>", "special": false, "normalized": false, "rstrip": true},
      {"id": 2, "content": "new", "special": false, "normalized": true}],
    "normalizer": {"type": "Sequence", "normalizers": [
      {"type": "Prepend", "prepend": "▁"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
      {"type": "ByteFallback"}, {"type": "Fuse"},
      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": true, "vocab": {
      "<unk>": 0, "</s>": 1, "new": 2, "▁": 3, "a": 4, "x": 5, "▁a": 6, "▁x": 7},
      "merges": ["▁ a", "▁ x"]}})");
}

TEST(TokenizerJson, TextBeginsAnewAfterAnAddedToken) {
  const auto tokenizer = read_json(small_characters());
  EXPECT_EQ(tokenizer->encode("a</s>x"), (std::vector<TokenId>{6, 1, 7}));
  EXPECT_EQ(tokenizer->encode("a</s>  x"), (std::vector<TokenId>{6, 1, 7}));
  // The added token is matched in normalised text: "▁" then "new".
  EXPECT_EQ(tokenizer->encode("a newx"), (std::vector<TokenId>{6, 2, 5}));
  EXPECT_EQ(tokenizer->encode("anew").front(), 6);
  EXPECT_NE(tokenizer->encode("anew").back(), 2);
  const auto vocabulary = tokenizer->vocabulary();
  ASSERT_TRUE(vocabulary);
  EXPECT_TRUE(vocabulary->begins_anew);
  const auto again = make_tokenizer(*vocabulary), saved = read_tokenizer_json(again->files(), "w");
  for (const char* text : {"a</s>x", "a</s>  x", "a newx", "anew", "</s></s>x a", "new"}) {
    EXPECT_EQ(again->encode(text), tokenizer->encode(text)) << text;
    EXPECT_EQ(saved->encode(text), tokenizer->encode(text)) << text;
    EXPECT_EQ(again->encode_with_controls(text), tokenizer->encode_with_controls(text)) << text;
  }
}

TEST(TokenizerJson, IgnoreMergesTakesWholeWords) {
  json root = small_bytes();
  root["model"]["merges"] = json::array({"a b"});
  EXPECT_EQ(read_json(root)->encode("abc"), (std::vector<TokenId>{4, 2}));
  root["model"]["ignore_merges"] = true;
  EXPECT_EQ(read_json(root)->encode("abc"), (std::vector<TokenId>{6}));
}

TEST(TokenizerJson, WhatIsNotImplementedIsNamed) {
  const auto refuses = [](const char* pointer, const json& value, const char* name) {
    json root = small_bytes();
    root[json::json_pointer(pointer)] = value;
    expect_says(error_of([&] { read_json(root); }), {"made.json", name});
  };
  refuses("/model/type", "WordPiece", "WordPiece");
  refuses("/model/dropout", 0.1, "dropout");
  refuses("/model/continuing_subword_prefix", "##", "continuing_subword_prefix");
  refuses("/normalizer", {{"type", "BertNormalizer"}}, "BertNormalizer");
  refuses("/pre_tokenizer", {{"type", "Whitespace"}}, "Whitespace");
  refuses("/decoder", {{"type", "WordPiece"}}, "WordPiece");
  refuses("/pre_tokenizer", nullptr, "ByteLevel");
}

TEST(TokenizerJson, DamagedFilesAreErrors) {
  const auto refuses = [](const char* pointer, const json& value) {
    json root = small_bytes();
    root[json::json_pointer(pointer)] = value;
    expect_says(error_of([&] { read_json(root); }), {"made.json"});
  };
  refuses("/model/merges/0", "x y");
  refuses("/model/merges/0", "abc");
  refuses("/model/merges/0", {"a", 7});
  refuses("/model/merges/0", {"a", "b", "c"});
  refuses("/model/merges", "a b");
  refuses("/model/vocab/a", -1);
  refuses("/model/vocab/a", 1 << 30);
  refuses("/model/vocab/a", 1);
  refuses("/model/vocab", json::array({"a"}));
  refuses("/added_tokens/0/id", 3);
  refuses("/added_tokens/0", 3);
  refuses("/pre_tokenizer/add_prefix_space", 7);
  refuses("/pre_tokenizer",
          {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}});
}

TEST(TokenizerJson, AgreesWithTheTinyCases) {
  const std::string folder = "tokenizers/tiny_hf/";
  const std::string cases = shared_data(folder + "cases.json");
  if (cases.empty()) GTEST_SKIP() << "missing data: tokenizers";
  const json all = json::parse(read_bytes(cases));
  EXPECT_EQ(all.size(), 3u);
  for (const auto& [kind, entry] : all.items()) {
    const auto tokenizer =
        load_tokenizer(shared_data(folder + entry.at("tokenizer").get<std::string>()));
    std::vector<std::string> texts;
    for (const auto& one : entry.at("cases")) {
      const auto text = one.at("text").get<std::string>();
      const auto ids = tokenizer->encode_with_controls(text);
      EXPECT_EQ(ids, one.at("ids").get<std::vector<TokenId>>()) << kind << " '" << text << "'";
      EXPECT_EQ(tokenizer->decode(ids), one.at("decoded").get<std::string>());
      EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
      texts.push_back(text);
    }
    if (const auto vocabulary = tokenizer->vocabulary())
      expect_same(*tokenizer, *make_tokenizer(*vocabulary), texts);
    else
      EXPECT_EQ(kind, "metaspace");  // trained merges that no scores give
  }
}

TEST(TokenizerJson, AgreesWithQwen2) {
  const auto vectors = token_vectors("tokenizers/qwen2/ggml-vocab-qwen2.gguf");
  if (vectors.empty()) GTEST_SKIP() << "missing data: tokenizers";
  EXPECT_EQ(vectors.size(), 46u);
  const auto tokenizer = read_tokenizer_json(
      {{kBytesFile, unpacked(shared_data("tokenizers/qwen2/tokenizer.json.gz"))}}, "qwen2");
  EXPECT_EQ(tokenizer->vocab_size(), 151646);
  EXPECT_EQ(tokenizer->end_of_document(), 151643);
  expect_agrees(*tokenizer, vectors);
  // Text is composed first: e and a combining accent become one character, and stay one.
  EXPECT_EQ(tokenizer->encode("e\xcc\x81"), tokenizer->encode("\xc3\xa9"));

  const auto vocabulary = tokenizer->vocabulary();
  ASSERT_TRUE(vocabulary);
  EXPECT_EQ(vocabulary->pre, "qwen2");
  EXPECT_TRUE(vocabulary->compose);
  const auto again = make_tokenizer(*vocabulary);
  expect_agrees(*again, vectors);
  expect_same(*tokenizer, *again, hard_texts());
  EXPECT_EQ(*again->vocabulary(), *vocabulary);
}

TEST(TokenizerJson, AgreesWithGpt2sPairOfFiles) {
  const auto vectors = token_vectors("tokenizers/gpt2/ggml-vocab-gpt-2.gguf");
  if (vectors.empty()) GTEST_SKIP() << "missing data: tokenizers";
  const auto folder = std::filesystem::path(shared_data("tokenizers/gpt2/vocab.json"));
  const auto tokenizer = load_tokenizer(folder.parent_path().string());
  EXPECT_EQ(tokenizer->vocab_size(), 50257);
  EXPECT_EQ(tokenizer->end_of_document(), 50256);
  expect_agrees(*tokenizer, vectors);
  for (const auto& text : hard_texts()) EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  // Bytes that are not UTF-8 are kept.
  const std::string raw = "a\xff\xfe b\xe2\x82 c\x80";
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(raw)), raw);

  // The tokenizer.json written from the vocabulary gives the same tokens.
  const auto vocabulary = tokenizer->vocabulary();
  ASSERT_TRUE(vocabulary);
  EXPECT_EQ(vocabulary->pre, "gpt-2");
  const auto written = read_tokenizer_json(hugging_face_files(*vocabulary), "written");
  expect_agrees(*written, vectors);
  expect_same(*tokenizer, *written, hard_texts());
  EXPECT_EQ(*written->vocabulary(), *vocabulary);
  expect_same(*tokenizer, *make_tokenizer(*vocabulary), hard_texts());
}

TEST(TokenizerJson, NamedPatternsAreReadBackByName) {
  for (const char* pre : {"gpt-2", "qwen2", "llama-bpe", "deepseek-llm", "deepseek-coder",
                          "deepseek-v3", "falcon", "starcoder"}) {
    Vocabulary vocabulary = *make_tokenizer("bytes", {})->vocabulary();
    vocabulary.kind = Vocabulary::Kind::kByteBpe;
    vocabulary.pre = pre;
    const auto tokenizer = make_tokenizer(vocabulary);
    EXPECT_EQ(tokenizer->vocabulary()->pre, pre);
    const auto written = read_tokenizer_json(tokenizer->files(), "written");
    EXPECT_EQ(written->vocabulary()->pre, pre);
  }
  Vocabulary unknown{.kind = Vocabulary::Kind::kByteBpe, .pieces = {{"a"}}, .pre = "no-such"};
  expect_says(error_of([&] { make_tokenizer(unknown); }), {"no-such", "qwen2"});
}

TEST(TokenizerJson, DigitsGoByThreesFromTheLeft) {
  // llama-bpe cuts with \p{N}{1,3}. Every pair of digits is a merge, so the tokens of 1234567 show
  // the cuts.
  Vocabulary vocabulary = *make_tokenizer("bytes", {})->vocabulary();
  vocabulary.kind = Vocabulary::Kind::kByteBpe;
  for (char a = '0'; a <= '9'; ++a)
    for (char b = '0'; b <= '9'; ++b) {
      vocabulary.pieces.push_back({std::string{a, b}});
      vocabulary.merges.emplace_back(std::string(1, a), std::string(1, b));
    }
  const auto pieces = [&](const char* pre) {
    vocabulary.pre = pre;
    const auto tokenizer = make_tokenizer(vocabulary);
    std::string out;
    for (const TokenId id : tokenizer->encode("1234567")) out += tokenizer->decode({{id}}) + "|";
    return out;
  };
  EXPECT_EQ(pieces("llama-bpe"), "12|3|45|6|7|");
  EXPECT_EQ(pieces("qwen2"), "1|2|3|4|5|6|7|");
  EXPECT_EQ(pieces("gpt-2"), "12|34|56|7|");
}

}  // namespace
}  // namespace penstock
