// How published pre-tokenizers cut text. The expected cuts were worked out by hand, step by step,
// from the rules as the tokenizers library and llama.cpp state them.
#include "penstock/data/text/pre_tokenizers.h"

#include "penstock/data/text/printable_bytes.h"
#include "penstock/data/text/steps.h"
#include "penstock/data/tokenizers/from_vocabulary.h"
#include "penstock/data/tokenizers/hugging_face_files.h"
#include "penstock/data/tokenizers/tokenizer_files.h"
#include "penstock/data/tokenizers/tokenizer_json.h"
#include "penstock/data/vocabulary.h"
#include "tests/data/tokenizers/vectors.h"

namespace penstock {
namespace {

using namespace testing;
using nlohmann::json;
using Pieces = std::vector<std::string>;

std::shared_ptr<const Tokenizer> with_pieces(const json& pre_tokenizer, const Pieces& pieces) {
  const auto names = printable_bytes();
  json vocab = json::object();
  const auto add = [&](std::string_view text) {
    std::string spelled;
    for (const char c : text) spelled += names[static_cast<unsigned char>(c)];
    if (!vocab.contains(spelled)) vocab[spelled] = vocab.size();
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
  for (const std::string& piece : pieces) add(piece);
  const json root = {
      {"pre_tokenizer", pre_tokenizer},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"}, {"vocab", vocab}, {"merges", json::array()}, {"ignore_merges", true}}}};
  return read_tokenizer_json({{kBytesFile, root.dump()}}, "made.json");
}

/// The pieces into which `pre_tokenizer` cuts the text. The tokenizer's vocabulary has every
/// substring of the text, and a word that is in the vocabulary becomes one token.
Pieces cuts(const json& pre_tokenizer, const std::string& text) {
  Pieces all;
  for (std::size_t begin = 0; begin < text.size(); ++begin)
    for (std::size_t size = 1; begin + size <= text.size(); ++size)
      all.push_back(text.substr(begin, size));
  const auto tokenizer = with_pieces(pre_tokenizer, all);
  Pieces out;
  for (const TokenId id : tokenizer->encode(text)) tokenizer->decode(id, out.emplace_back());
  return out;
}

/// The pieces into which the named rule cuts the text.
Pieces cuts_of(const char* name, const std::string& text) {
  Pieces out = {text};
  for (const std::string& pattern : pre_tokenizer_patterns(name))
    apply({isolating_step(pattern)}, out, true);
  return out;
}

json byte_level(bool regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", regex}};
}
json sequence(std::vector<json> steps) {
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}
json isolated(const std::string& pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}
json punctuation(const char* behaviour) {
  return sequence({{{"type", "Punctuation"}, {"behavior", behaviour}}, byte_level(false)});
}

TEST(PreTokenizers, PunctuationInEveryBehaviour) {
  const std::string text = "Hey friend!     How are you?!?";
  EXPECT_EQ(cuts(punctuation("Isolated"), text),
            (Pieces{"Hey friend", "!", "     How are you", "?", "!", "?"}));
  EXPECT_EQ(cuts(punctuation("Removed"), text), (Pieces{"Hey friend", "     How are you"}));
  EXPECT_EQ(cuts(punctuation("MergedWithPrevious"), text),
            (Pieces{"Hey friend!", "     How are you?", "!", "?"}));
  EXPECT_EQ(cuts(punctuation("MergedWithNext"), text),
            (Pieces{"Hey friend", "!     How are you", "?", "!", "?"}));
  EXPECT_EQ(cuts(punctuation("Contiguous"), text),
            (Pieces{"Hey friend", "!", "     How are you", "?!?"}));
  // Symbols count as punctuation only within ASCII.
  EXPECT_EQ(cuts(sequence({{{"type", "Punctuation"}}, byte_level(false)}), "a€b–c$d"),
            (Pieces{"a€b", "–", "c", "$", "d"}));
}

/// The pre-tokenizer of DeepSeek LLM's and DeepSeek-V2's tokenizer.json, which cuts off each digit.
json deepseek_llm() {
  auto patterns = pre_tokenizer_patterns("deepseek-llm");
  std::vector<json> steps = {isolated("[\r\n]")};  // the characters themselves, not escapes
  for (std::size_t i = 1; i + 1 < patterns.size(); ++i) steps.push_back(isolated(patterns[i]));
  steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  steps.push_back(byte_level(false));
  return sequence(steps);
}

TEST(PreTokenizers, DeepSeek) {
  const std::string text = "Hi there,  x=12\n 日本ok  ";
  // "日本" are no letters with case, so the space before them stays alone when they are cut off.
  const Pieces common = {"Hi", " there", ",", " ", " x", "="};
  const Pieces rest = {"\n", " ", "日本", "ok", "  "};
  const auto joined = [&](const Pieces& middle) {
    Pieces out = common;
    out.insert(out.end(), middle.begin(), middle.end());
    out.insert(out.end(), rest.begin(), rest.end());
    return out;
  };
  EXPECT_EQ(cuts(deepseek_llm(), text), joined({"1", "2"}));
  EXPECT_EQ(cuts_of("deepseek-llm", text), joined({"12"}));
  // In the coder's rule "=" is no punctuation, and all letters count alike: " 日本ok" is one piece.
  EXPECT_EQ(cuts_of("deepseek-coder", text), joined({"1", "2"}));
  EXPECT_EQ(cuts_of("deepseek-coder", "a==1"), (Pieces{"a", "==", "1"}));
  EXPECT_EQ(cuts_of("deepseek-llm", "ƻé"), (Pieces{"ƻ", "é"}));  // U+01BB has no case
  EXPECT_EQ(
      cuts_of("deepseek-v3", "It's 1234 (foo) 日本語!\n\n  end"),
      (Pieces{"It", "'s", " ", "123", "4", " (", "foo", ")", " ", "日本語", "!\n\n", " ", " end"}));
}

/// Falcon's pre-tokenizer of tokenizer.json, which also cuts after ByteLevel.
json falcon() {
  return sequence({{{"type", "Punctuation"}, {"behavior", "Contiguous"}},
                   byte_level(true),
                   {{"type", "Digits"}, {"individual_digits", false}},
                   isolated("[0-9][0-9][0-9]")});
}

TEST(PreTokenizers, FalconAndStarCoder) {
  const std::string text = "Hi!! it's 12345 òk";
  // ò is the bytes C3 B2. ByteLevel writes B2 as ², which counts as a number.
  EXPECT_EQ(cuts(falcon(), text),
            (Pieces{"Hi", "!!", " it", "'", "s", " ", "123", "45", " \xc3", "\xb2", "k"}));
  EXPECT_EQ(cuts_of("falcon", text),
            (Pieces{"Hi", "!!", " it", "'", "s", " ", "123", "45", " òk"}));
  const json starcoder =
      sequence({{{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)});
  const Pieces expected = {"x", "1", " =", " ", "2", "3", " ", " y"};
  EXPECT_EQ(cuts(starcoder, "x1 = 23  y"), expected);
  EXPECT_EQ(cuts_of("starcoder", "x1 = 23  y"), expected);
  EXPECT_EQ(cuts_of("refact", "x1 = 23  y"), expected);
}

TEST(PreTokenizers, AreKnownByNameWhereNoPieceLiesAcrossACut) {
  const auto name = [](const json& pre_tokenizer, const Pieces& pieces) {
    const auto vocabulary = with_pieces(pre_tokenizer, pieces)->vocabulary();
    return vocabulary ? vocabulary->pre : "untold";
  };
  EXPECT_EQ(name(deepseek_llm(), {"ab"}), "deepseek-llm");
  EXPECT_EQ(name(deepseek_llm(), {"12"}), "");  // the vocabulary has patterns, but no name
  EXPECT_EQ(name(falcon(), {"ab", "12"}), "falcon");
  EXPECT_EQ(name(falcon(), {" 1"}), "untold");
  EXPECT_EQ(name(punctuation("Removed"), {}), "untold");
  const json starcoder =
      sequence({{{"type", "Digits"}, {"individual_digits", true}}, byte_level(true)});
  EXPECT_EQ(name(starcoder, {"12"}), "starcoder");
}

TEST(PreTokenizers, SeveralPatternsSurviveTheVocabulary) {
  const auto first = with_pieces(deepseek_llm(), {"12", "Hi", " there"});
  const auto vocabulary = first->vocabulary();
  ASSERT_TRUE(vocabulary);
  EXPECT_EQ(vocabulary->patterns.size(), 6u);
  expect_same(*first, *make_tokenizer(*vocabulary), hard_texts());
  const auto written = read_tokenizer_json(hugging_face_files(*vocabulary), "written");
  expect_same(*first, *written, hard_texts());
}

}  // namespace
}  // namespace penstock
