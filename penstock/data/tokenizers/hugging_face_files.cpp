#include "penstock/data/tokenizers/hugging_face_files.h"

#include <nlohmann/json.hpp>
#include <unordered_map>

#include "penstock/base/error.h"
#include "penstock/data/text/byte_pieces.h"
#include "penstock/data/text/pre_tokenizers.h"
#include "penstock/data/tokenizers/merge_scores.h"
#include "penstock/data/tokenizers/tokenizer_files.h"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;
using Kind = Vocabulary::Kind;
using PieceType = Vocabulary::PieceType;

bool of_bytes(const Vocabulary& vocabulary) {
  return vocabulary.kind == Kind::kBytes || vocabulary.kind == Kind::kByteBpe;
}

/// The text of a special piece, or null.
Json special(const Vocabulary& vocabulary, TokenId id) {
  return id < 0 ? Json() : Json(vocabulary.pieces.at(static_cast<std::size_t>(id)).text);
}

Json added_tokens(const Vocabulary& vocabulary) {
  Json out = Json::array();
  for (std::size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const auto& piece = vocabulary.pieces[id];
    const bool special = piece.type == PieceType::kControl || piece.type == PieceType::kUnknown;
    if ((!special && piece.type != PieceType::kUserDefined) || piece.text.empty()) continue;
    const AddedToken token = added_token(vocabulary, static_cast<TokenId>(id));
    out.push_back({{"id", id},
                   {"content", piece.text},
                   {"single_word", token.single_word},
                   {"lstrip", token.lstrip},
                   {"rstrip", token.rstrip},
                   {"normalized", token.normalized},
                   {"special", special}});
  }
  return out;
}

Json byte_level() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", false},
          {"use_regex", false}};
}

Json replace(std::string_view from, std::string_view to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

Json normalizer(const Vocabulary& vocabulary) {
  if (of_bytes(vocabulary)) return vocabulary.compose ? Json{{"type", "NFC"}} : Json();
  Json steps = Json::array();
  if (vocabulary.add_space_prefix) steps.push_back({{"type", "Prepend"}, {"prepend", kSpaceMark}});
  steps.push_back(replace(" ", kSpaceMark));
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

Json pre_tokenizer(const Vocabulary& vocabulary) {
  if (!of_bytes(vocabulary)) return Json();
  const auto patterns =
      vocabulary.pre.empty() ? vocabulary.patterns : pre_tokenizer_patterns(vocabulary.pre);
  if (patterns.empty() || vocabulary.kind == Kind::kBytes) return byte_level();
  Json steps = Json::array();
  for (const std::string& pattern : patterns)
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", pattern}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  steps.push_back(byte_level());
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

Json decoder(const Vocabulary& vocabulary) {
  if (of_bytes(vocabulary)) return byte_level();
  Json steps =
      Json::array({replace(kSpaceMark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  if (vocabulary.add_space_prefix)
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", steps}};
}

/// The post-processor that puts bos before a text; null if the vocabulary adds none.
Json post_processor(const Vocabulary& vocabulary) {
  if (!vocabulary.add_bos || vocabulary.bos < 0) return Json();
  const Json bos = special(vocabulary, vocabulary.bos);
  const auto begin = [&](int type) {
    return Json{{"SpecialToken", {{"id", bos}, {"type_id", type}}}};
  };
  const auto text = [&](const char* which, int type) {
    return Json{{"Sequence", {{"id", which}, {"type_id", type}}}};
  };
  return {
      {"type", "TemplateProcessing"},
      {"single", Json::array({begin(0), text("A", 0)})},
      {"pair", Json::array({begin(0), text("A", 0), begin(1), text("B", 1)})},
      {"special_tokens",
       {{bos.get<std::string>(),
         {{"id", bos}, {"ids", Json::array({vocabulary.bos})}, {"tokens", Json::array({bos})}}}}}};
}

Json bpe_model(const Vocabulary& vocabulary) {
  Json pieces = Json::object(), merges = Json::array();
  std::unordered_map<std::string_view, std::size_t> ids;
  // The object's list of entries. An insertion into the object itself would search all keys.
  auto& entries = pieces.get_ref<Json::object_t&>();
  for (std::size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    const auto& piece = vocabulary.pieces[id];
    if (piece.type == PieceType::kUnused) continue;
    PENSTOCK_CHECK(ids.emplace(piece.text, id).second, "the pieces ", ids[piece.text], " and ", id,
                   " have the same text, which a tokenizer.json cannot say");
    entries.emplace_back(piece.text, id);
  }
  const auto pairs = of_bytes(vocabulary) ? vocabulary.merges : merges_of_scores(vocabulary);
  for (const auto& [left, right] : pairs) merges.push_back({left, right});
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", special(vocabulary, vocabulary.unknown)},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", !of_bytes(vocabulary)},
          {"ignore_merges", vocabulary.ignore_merges},
          {"vocab", pieces},
          {"merges", merges}};
}

Json unigram_model(const Vocabulary& vocabulary) {
  // The score of byte and control pieces. Text that equals the name of such a piece is then never
  // encoded as the piece.
  constexpr float kNever = -10000;
  Json pieces = Json::array();
  for (const auto& piece : vocabulary.pieces)
    pieces.push_back({piece.text, piece.type == PieceType::kNormal ? piece.score : kNever});
  return {{"type", "Unigram"},
          {"unk_id", vocabulary.unknown < 0 ? Json() : Json(vocabulary.unknown)},
          {"vocab", pieces},
          {"byte_fallback", true}};
}

std::string tokenizer_config(const Vocabulary& vocabulary, const char* of_class) {
  Json out = {{"tokenizer_class", of_class},
              {"add_bos_token", vocabulary.add_bos},
              {"add_eos_token", false},
              {"clean_up_tokenization_spaces", false}};
  const std::pair<const char*, TokenId> named[] = {{"bos_token", vocabulary.bos},
                                                   {"eos_token", vocabulary.eos},
                                                   {"unk_token", vocabulary.unknown},
                                                   {"pad_token", vocabulary.padding}};
  for (const auto& [name, id] : named)
    if (id >= 0) out[name] = special(vocabulary, id);
  return out.dump(1) + "\n";
}

}  // namespace

std::map<std::string, std::string> hugging_face_files(const Vocabulary& vocabulary) {
  const Json out = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added_tokens(vocabulary)},
      {"normalizer", normalizer(vocabulary)},
      {"pre_tokenizer", pre_tokenizer(vocabulary)},
      {"post_processor", post_processor(vocabulary)},
      {"decoder", decoder(vocabulary)},
      {"model", vocabulary.kind == Kind::kSentencePieceUnigram ? unigram_model(vocabulary)
                                                               : bpe_model(vocabulary)}};
  return {{kBytesFile, out.dump(1) + "\n"},
          {kTokenizerConfigFile, tokenizer_config(vocabulary, "PreTrainedTokenizerFast")}};
}

std::map<std::string, std::string> hugging_face_files(const Tokenizer& tokenizer) {
  auto files = tokenizer.files();
  if (files.contains(kTokenizerConfigFile)) return files;
  const auto vocabulary = tokenizer.vocabulary();
  if (files.contains(kBytesFile)) {
    if (vocabulary)
      files[kTokenizerConfigFile] = tokenizer_config(*vocabulary, "PreTrainedTokenizerFast");
    return files;
  }
  if (files.contains(kVocabFile) && vocabulary && vocabulary->pre == "gpt-2") {
    files[kTokenizerConfigFile] = tokenizer_config(*vocabulary, "GPT2Tokenizer");
    return files;
  }
  PENSTOCK_CHECK(vocabulary, "the tokenizer ", tokenizer.spec(),
                 " has no spelling that the Hugging Face libraries know");
  return hugging_face_files(*vocabulary);
}

}  // namespace penstock
