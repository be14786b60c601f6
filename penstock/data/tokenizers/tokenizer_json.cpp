#include "penstock/data/tokenizers/tokenizer_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "penstock/base/error.h"
#include "penstock/base/json_error.h"
#include "penstock/data/text/byte_pieces.h"
#include "penstock/data/text/json_steps.h"
#include "penstock/data/text/pre_tokenizers.h"
#include "penstock/data/tokenizers/merge_scores.h"
#include "penstock/data/tokenizers/merging_tokenizer.h"
#include "penstock/data/tokenizers/sentencepiece_tokenizer.h"
#include "penstock/data/tokenizers/special_pieces.h"
#include "penstock/data/tokenizers/tokenizer_files.h"
#include "penstock/data/tokenizers/unigram_json.h"

namespace penstock {
namespace {

using nlohmann::json;
using PieceType = Vocabulary::PieceType;
using Files = std::map<std::string, std::string>;

constexpr std::size_t kLargestJson = std::size_t{128} << 20;

json parse_file(const std::string& content, const std::string& name) {
  PENSTOCK_CHECK(content.size() <= kLargestJson, "'", name, "' has ", content.size(),
                 " bytes, more than a tokenizer's file has");
  json out = json::parse(content, nullptr, false);
  PENSTOCK_CHECK(!out.is_discarded(), "'", name, "' is not JSON, or cut short");
  PENSTOCK_CHECK(out.is_object(), "'", name, "' is not a JSON object");
  return out;
}

/// tokenizer_config.json, or null.
json parse_config(const Files& files) {
  const auto it = files.find(kTokenizerConfigFile);
  return it == files.end() ? json() : parse_file(it->second, kTokenizerConfigFile);
}

/// The member, or null if it is missing.
const json& member(const json& object, const char* name) {
  static const json null;
  return object.contains(name) ? object.at(name) : null;
}

TokenId checked_id(const json& value, const std::string& what) {
  const bool good = value.is_number_integer() && value >= 0 && value < kMaxPieces;
  PENSTOCK_CHECK(good, "the id of '", what.substr(0, 60), "' is not a number from 0 to ",
                 kMaxPieces - 1);
  return value.get<TokenId>();
}

/// Collects pieces by id. Ids without a piece stay unused.
class PieceList {
 public:
  /// @param pieces  the expected number of pieces. Ids far beyond it are refused, since they would
  ///                fill the memory.
  explicit PieceList(std::size_t pieces) : most_(8 * pieces + 65536) {}

  void set(TokenId id, const std::string& text, PieceType type) {
    const auto at = static_cast<std::size_t>(id);
    PENSTOCK_CHECK(at < most_, "the id ", id, " of '", text.substr(0, 60),
                   "' is far beyond the number of pieces");
    if (at >= pieces_.size()) pieces_.resize(at + 1, {{}, 0, PieceType::kUnused});
    auto& piece = pieces_[at];
    PENSTOCK_CHECK(piece.type == PieceType::kUnused || piece.text == text, "the id ", id,
                   " stands for both '", piece.text.substr(0, 60), "' and '", text.substr(0, 60),
                   "'");
    piece = {text, 0, type};
  }
  std::vector<Vocabulary::Piece> take() {
    for (std::size_t id = 0; id < pieces_.size(); ++id)
      if (pieces_[id].type == PieceType::kUnused) pieces_[id].text = concat("[PAD", id, "]");
    return std::move(pieces_);
  }

 private:
  std::size_t most_;
  std::vector<Vocabulary::Piece> pieces_;
};

std::pair<std::string, std::string> read_merge(const json& merge, std::size_t number) {
  if (merge.is_array() && merge.size() == 2)
    return {merge.at(0).get<std::string>(), merge.at(1).get<std::string>()};
  const bool text = merge.is_string();
  const std::string both = text ? merge.get<std::string>() : "";
  const auto space = both.find(' ');
  PENSTOCK_CHECK(text && space != both.npos && both.find(' ', space + 1) == both.npos, "merge ",
                 number, " is not two pieces");
  return {both.substr(0, space), both.substr(space + 1)};
}

void refuse(const json& model, const char* name) {
  const json& value = member(model, name);
  const bool off = value.is_null() || value == "" || value == false || value == 0;
  PENSTOCK_CHECK(off, "the model's '", name, "' is not implemented");
}

/// Whether the post-processor puts bos before a text.
bool adds_bos(const json& processor, const std::string& bos) {
  if (bos.empty() || !processor.is_object()) return false;
  if (member(processor, "type") == "Sequence") {
    const json& inner = member(processor, "processors");
    return std::ranges::any_of(inner, [&](const json& one) {
      return one.is_object() && member(one, "type") != "Sequence" && adds_bos(one, bos);
    });
  }
  const json& single = member(processor, "single");
  if (!single.is_array() || single.empty() || !single.front().is_object()) return false;
  const json& special = member(single.front(), "SpecialToken");
  return special.is_object() && member(special, "id") == bos;
}

void read_pieces(const json& root, const json& model, PieceList& pieces, MergingParts& parts) {
  for (const auto& [text, id] : model.at("vocab").items())
    pieces.set(checked_id(id, text), text, PieceType::kNormal);
  for (const json& entry : member(root, "added_tokens")) {
    const auto content = entry.at("content").get<std::string>();
    parts.added.push_back(read_added_token(entry, checked_id(entry.at("id"), content)));
    const AddedToken& token = parts.added.back();
    pieces.set(token.id, content, token.control ? PieceType::kControl : PieceType::kUserDefined);
  }
}

/// Whether the pattern matches in a piece that merging can make.
bool any_piece(const Vocabulary& vocabulary, const Pattern& pattern) {
  bool found = false;
  for (const auto& piece : vocabulary.pieces)
    if (piece.type == PieceType::kNormal && !found)
      pattern.for_each_match(piece.text, [&](std::size_t, std::size_t) { found = true; });
  return found;
}

/// The added tokens for which a plain search in the text is not enough.
/// @param normalises  whether normalisation changes the text in which tokens with `normalized` are
///                    searched for
std::vector<AddedToken> odd_tokens(const std::vector<AddedToken>& added, bool normalises) {
  std::vector<AddedToken> out;
  for (AddedToken token : added) {
    token.normalized = token.normalized && normalises;
    if (token.lstrip || token.rstrip || token.single_word || token.normalized)
      out.push_back(std::move(token));
  }
  return out;
}

/// Fills in the vocabulary's description of a byte-level encoding.
void describe_bytes(const JsonSteps& normalizer, const JsonSteps& pre_tokenizer,
                    MergingParts& parts) {
  Vocabulary& vocabulary = parts.vocabulary;
  vocabulary.kind = Vocabulary::Kind::kByteBpe;
  vocabulary.add_space_prefix = false;
  vocabulary.compose = normalizer.composes;
  vocabulary.pre = pre_tokenizer_name(
      pre_tokenizer.patterns, pre_tokenizer.byte_patterns,
      [&](const std::string& pattern) { return any_piece(vocabulary, Pattern(pattern)); });
  vocabulary.patterns =
      vocabulary.pre.empty() ? pre_tokenizer.patterns : pre_tokenizer_patterns(vocabulary.pre);
  parts.told_by_vocabulary = normalizer.plain && normalizer.mark.empty() &&
                             !normalizer.prefixes_space && pre_tokenizer.plain &&
                             (!vocabulary.pre.empty() || pre_tokenizer.byte_patterns.empty());
}

/// Fills in the description of an encoding over characters. It is SentencePiece's if its merges
/// follow from scores.
void describe_characters(const JsonSteps& normalizer, const JsonSteps& pre_tokenizer,
                         const JsonDecoder& decoder, MergingParts& parts) {
  Vocabulary& vocabulary = parts.vocabulary;
  vocabulary.kind = Vocabulary::Kind::kSentencePieceBpe;
  parts.bytes = false;
  parts.mark = decoder.mark;
  parts.drops_first_space = decoder.drops_first_space;
  vocabulary.add_space_prefix = normalizer.prefixes_space || pre_tokenizer.prefixes_space;
  vocabulary.begins_anew = !pre_tokenizer.prefixes_once;
  if (parts.byte_fallback)
    for (auto& piece : vocabulary.pieces)
      if (piece_byte(piece.text) >= 0) piece.type = PieceType::kByte;
  const bool one_marks = normalizer.mark.empty() != pre_tokenizer.mark.empty();
  parts.told_by_vocabulary = normalizer.plain && pre_tokenizer.plain && one_marks &&
                             !normalizer.composes && pre_tokenizer.patterns.empty() &&
                             !vocabulary.ignore_merges && parts.byte_fallback &&
                             set_scores_of_merges(vocabulary);
}

std::shared_ptr<const Tokenizer> read_bpe(const json& root, const Files& files,
                                          const std::string& name) {
  const json& model = root.at("model");
  MergingParts parts{.spec = "tokenizer.json", .origin = name, .files = files};
  Vocabulary& vocabulary = parts.vocabulary;
  for (const char* unknown : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"})
    refuse(model, unknown);
  PieceList pieces(model.at("vocab").size() + member(root, "added_tokens").size());
  read_pieces(root, model, pieces, parts);
  vocabulary.pieces = pieces.take();
  std::size_t number = 0;
  for (const json& merge : model.at("merges"))
    vocabulary.merges.push_back(read_merge(merge, ++number));
  const auto truth = [&](const char* key) { return member(model, key) == true; };
  parts.byte_fallback = truth("byte_fallback");
  parts.fuse_unknown = truth("fuse_unk");
  vocabulary.ignore_merges = truth("ignore_merges");

  std::unordered_map<std::string, TokenId> ids;
  for (std::size_t id = 0; id < vocabulary.pieces.size(); ++id)
    ids.try_emplace(vocabulary.pieces[id].text, static_cast<TokenId>(id));
  const auto find = [&](const std::string& text) {
    const auto it = ids.find(text);
    return it == ids.end() ? -1 : it->second;
  };
  if (const json& unknown = member(model, "unk_token"); unknown.is_string())
    vocabulary.unknown = find(unknown.get<std::string>());
  set_special_pieces(parse_config(files), parts.added, find, vocabulary);
  if (vocabulary.bos >= 0)
    vocabulary.add_bos = vocabulary.add_bos ||
                         adds_bos(member(root, "post_processor"),
                                  vocabulary.pieces[static_cast<std::size_t>(vocabulary.bos)].text);

  JsonSteps normalizer = read_normalizer(member(root, "normalizer"));
  JsonSteps pre_tokenizer = read_pre_tokenizer(member(root, "pre_tokenizer"));
  const JsonDecoder decoder = read_decoder(member(root, "decoder"));
  PENSTOCK_CHECK(pre_tokenizer.bytes || parts.byte_fallback || vocabulary.unknown >= 0,
                 "it has neither a ByteLevel pre_tokenizer nor byte_fallback nor an unk_token: "
                 "text outside its vocabulary would be lost");
  parts.bytes = pre_tokenizer.bytes;
  parts.bytes ? describe_bytes(normalizer, pre_tokenizer, parts)
              : describe_characters(normalizer, pre_tokenizer, decoder, parts);
  vocabulary.added = odd_tokens(parts.added, !normalizer.steps.empty());
  parts.normalisers = std::move(normalizer.steps);
  parts.cuts = std::move(pre_tokenizer.steps);
  if (vocabulary.unknown >= 0) {
    auto& piece = vocabulary.pieces[static_cast<std::size_t>(vocabulary.unknown)];
    piece.type = PieceType::kUnknown;
  }
  return make_merging_tokenizer(std::move(parts));
}

/// Turns an error of nlohmann's library (such as a string in place of a number) into an Error that
/// names the file.
template <class Read>
std::shared_ptr<const Tokenizer> with_name(const std::string& name, Read read) {
  try {
    return read();
  } catch (const json::exception& error) {
    fail("'", name, "' is not a tokenizer that can be read: ", json_error_text(error));
  } catch (const Error& error) {
    if (std::string(error.what()).find(name) != std::string::npos) throw;
    fail("'", name, "': ", error.what());
  }
}

std::vector<std::pair<std::string, std::string>> read_merges_text(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> merges;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.pop_back();
    ++number;
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    merges.push_back(read_merge(json(line), number));
  }
  return merges;
}

}  // namespace

std::shared_ptr<const Tokenizer> read_tokenizer_json(const Files& files, const std::string& name) {
  return with_name(name, [&] {
    const json root = parse_file(files.at(kBytesFile), name);
    const json& model = member(root, "model");
    PENSTOCK_CHECK(model.is_object(), "it has no model");
    const json& type = member(model, "type");
    if (type == "Unigram") return read_unigram_json(root, parse_config(files));
    // Files from before 2020 name no type.
    PENSTOCK_CHECK(type == "BPE" || (type.is_null() && model.contains("merges")), "the model ",
                   type.is_string() ? type.get<std::string>() : "without type",
                   " is not implemented; BPE and Unigram are");
    PENSTOCK_CHECK(model.contains("vocab") && model.at("vocab").is_object() &&
                       model.contains("merges") && model.at("merges").is_array(),
                   "its model has no vocabulary or no merges");
    return read_bpe(root, files, name);
  });
}

std::shared_ptr<const Tokenizer> read_vocab_and_merges(const Files& files,
                                                       const std::string& name) {
  return with_name(name, [&] {
    const json vocab = parse_file(files.at(kVocabFile), name), config = parse_config(files);
    MergingParts parts{.spec = "vocab.json", .origin = name, .files = files};
    Vocabulary& vocabulary = parts.vocabulary;
    vocabulary.kind = Vocabulary::Kind::kByteBpe;
    vocabulary.add_space_prefix = false;
    const json& named = member(config, "tokenizer_class");
    const std::string type = named.is_string() ? named.get<std::string>() : "GPT2Tokenizer";
    const bool gpt2 = type.starts_with("GPT2Tokenizer");
    PENSTOCK_CHECK(gpt2 || type.starts_with("Qwen2Tokenizer"), "the tokenizer_class ", type,
                   " is not implemented for ", kVocabFile,
                   "; GPT2Tokenizer and Qwen2Tokenizer are");
    vocabulary.pre = gpt2 ? "gpt-2" : "qwen2";
    vocabulary.patterns = pre_tokenizer_patterns(vocabulary.pre);
    vocabulary.compose = !gpt2;
    PieceList pieces(vocab.size() + member(config, "added_tokens_decoder").size());
    std::unordered_map<std::string, TokenId> ids;
    for (const auto& [text, id] : vocab.items()) {
      ids[text] = checked_id(id, text);
      pieces.set(ids[text], text, PieceType::kNormal);
    }
    const auto add = [&](AddedToken token) {
      ids[token.content] = token.id;
      const auto kind = token.control ? PieceType::kControl : PieceType::kUserDefined;
      pieces.set(token.id, token.content, kind);
      parts.added.push_back(std::move(token));
    };
    for (const auto& [number, entry] : member(config, "added_tokens_decoder").items()) {
      const json id = json::parse(number, nullptr, false);
      add(read_added_token(entry, checked_id(id, number)));
    }
    const std::string end = "<|endoftext|>";
    if (ids.contains(end) && parts.added.empty())
      add({.id = ids[end], .content = end, .control = true});
    vocabulary.pieces = pieces.take();
    vocabulary.merges = read_merges_text(files.at(kMergesFile));
    set_special_pieces(
        config, parts.added,
        [&](const std::string& text) { return ids.contains(text) ? ids[text] : -1; }, vocabulary);
    if (vocabulary.compose) parts.normalisers.push_back(normal_form_step(NormalForm::kNfc));
    for (const std::string& pattern : vocabulary.patterns)
      parts.cuts.push_back(isolating_step(pattern));
    vocabulary.added = odd_tokens(parts.added, vocabulary.compose);
    return make_merging_tokenizer(std::move(parts));
  });
}

}  // namespace penstock
