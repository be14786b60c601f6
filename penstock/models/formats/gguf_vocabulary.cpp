#include "penstock/models/formats/gguf_vocabulary.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/data/text/byte_pieces.h"
#include "penstock/data/text/pre_tokenizers.h"
#include "penstock/data/text/unicode.h"
#include "penstock/models/formats/gguf_tokenizer_keys.h"

namespace penstock {
namespace {

using Kind = Vocabulary::Kind;
using PieceType = Vocabulary::PieceType;

/// Reads the file's values by short key. Errors name the file and the key.
class TokenizerKeys {
 public:
  explicit TokenizerKeys(const GgufFile& file) : file_(file) {}

  const GgufValue* find(std::string_view name) const { return file_.value(ggml_key(name)); }

  std::string text(std::string_view name) const {
    const GgufValue* const value = find(name);
    PENSTOCK_CHECK(value && value->as_string(), where(name), " is missing or no string");
    return *value->as_string();
  }
  const std::vector<std::string>& texts(std::string_view name) const {
    const GgufValue* const value = find(name);
    PENSTOCK_CHECK(value && value->as_strings(), where(name), " is missing or no list of strings");
    return *value->as_strings();
  }
  bool boolean(std::string_view name, bool otherwise) const {
    const GgufValue* const value = find(name);
    PENSTOCK_CHECK(!value || value->as_bool(), where(name), " is no truth value");
    return value ? *value->as_bool() : otherwise;
  }
  TokenId id(std::string_view name, TokenId otherwise, std::size_t pieces) const {
    const GgufValue* const value = find(name);
    if (!value) return otherwise < static_cast<TokenId>(pieces) ? otherwise : -1;
    const auto number = value->as_integer();
    PENSTOCK_CHECK(number, where(name), " is no token id");
    // Files write 2^32 - 1, or another id beyond the list, for "none".
    return *number >= 0 && *number < static_cast<std::int64_t>(pieces)
               ? static_cast<TokenId>(*number)
               : -1;
  }
  std::string where(std::string_view name) const {
    return file_.origin() + ": key '" + ggml_key(name) + "'";
  }

 private:
  const GgufFile& file_;
};

PieceType piece_type(std::int64_t number, const std::string& where) {
  for (const auto& [type, known] : kGgufPieceTypes)
    if (known == number) return type;
  PENSTOCK_CHECK(number == 0, where, ": ", number, " is no type of token");
  return PieceType::kNormal;  // "undefined"
}

void read_pieces(const TokenizerKeys& keys, Vocabulary& out) {
  const auto& texts = keys.texts("tokens");
  PENSTOCK_CHECK(!texts.empty() && texts.size() <= 1 << 24, keys.where("tokens"), " has ",
                 texts.size(), " entries");
  std::vector<float> scores(texts.size(), 0.0f);
  std::vector<std::int64_t> types(texts.size(), 1);
  if (const GgufValue* const value = keys.find("scores")) {
    auto read = value->as_numbers();
    PENSTOCK_CHECK(read && read->size() == texts.size(), keys.where("scores"),
                   " is not one number for each token");
    scores = std::move(*read);
  }
  if (const GgufValue* const value = keys.find("token_type")) {
    auto read = value->as_integers();
    PENSTOCK_CHECK(read && read->size() == texts.size(), keys.where("token_type"),
                   " is not one number for each token");
    types = std::move(*read);
  }
  out.pieces.reserve(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i)
    out.pieces.push_back({.text = texts[i],
                          .score = scores[i],
                          .type = piece_type(types[i], keys.where("token_type"))});
  while (out.pieces.size() > 1 && out.pieces.back().type == PieceType::kUnused &&
         out.pieces.back().text == gguf_filler_name(out.pieces.size() - 1))
    out.pieces.pop_back();
}

void read_merges(const TokenizerKeys& keys, Vocabulary& out) {
  for (const std::string& merge : keys.texts("merges")) {
    const auto space = merge.find(' ', 1);  // the first character may be a space
    PENSTOCK_CHECK(space != std::string::npos && space + 1 < merge.size(), keys.where("merges"),
                   " holds '", merge.substr(0, 80), "', which is no pair");
    out.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
}

void read_rule(const TokenizerKeys& keys, Vocabulary& out) {
  const std::string name = keys.text("pre");
  const PreTokenizer* const rule = find_pre_tokenizer(name);
  // An unknown rule is an error only when text is cut.
  out.pre = rule ? std::string(rule->name) : name;
  if (!rule) return;
  out.ignore_merges = rule->whole_words;
  out.compose = rule->composes;  // as in the tokenizers that have this rule
}

/// Marks the pieces that also take the white space after them. GGUF has no key for this, so
/// llama.cpp decides by the model's name, and so does this function.
void read_stripping(std::string name, Vocabulary& out) {
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.find("phi-3") == std::string::npos && name.find("phi3") == std::string::npos) return;
  for (std::size_t id = 0; id < out.pieces.size(); ++id) {
    const auto& piece = out.pieces[id];
    const bool kept = piece.text == "<s>" || piece.text == "<|endoftext|>";
    if (kept || (piece.type != PieceType::kControl && piece.type != PieceType::kUserDefined))
      continue;
    AddedToken token = added_token(out, static_cast<TokenId>(id));
    token.rstrip = true;
    out.added.push_back(std::move(token));
  }
}

/// Undoes put_bytes_as_characters() (gguf_tokenizer.cpp): characters that replaced a byte's piece
/// become byte pieces again.
void read_characters_as_bytes(std::vector<Vocabulary::Piece>& pieces) {
  std::set<int> bytes;
  for (const auto& piece : pieces)
    if (piece.type == PieceType::kByte) bytes.insert(piece_byte(piece.text));
  if (bytes.size() < 128) return;  // the vocabulary never had byte pieces
  for (auto& piece : pieces) {
    if (piece.type != PieceType::kNormal || piece.text.size() != 1) continue;
    const auto byte = static_cast<unsigned char>(piece.text[0]);
    if (!bytes.insert(byte).second) continue;
    piece = {.text = byte_piece(byte), .score = 0, .type = PieceType::kByte};
  }
}

}  // namespace

Vocabulary read_gguf_vocabulary(const GgufFile& file) {
  const TokenizerKeys keys(file);
  Vocabulary out;
  const std::string model = keys.text("model");
  read_pieces(keys, out);
  const std::size_t count = out.pieces.size();
  // llama.cpp's defaults for absent keys.
  bool add_bos = false;
  TokenId bos = -1, eos = -1, unknown = -1;
  if (model == "gpt2") {
    read_merges(keys, out);
    out.kind = out.merges.empty() ? Kind::kBytes : Kind::kByteBpe;
    if (out.kind == Kind::kByteBpe) read_rule(keys, out);
    add_bos = out.ignore_merges;
    out.add_space_prefix = false;
  } else if (model == "llama" || model == "t5") {
    const bool unigram = model == "t5";
    out.kind = unigram ? Kind::kSentencePieceUnigram : Kind::kSentencePieceBpe;
    PENSTOCK_CHECK(keys.find("scores"), keys.where("scores"), " is missing");
    PENSTOCK_CHECK(
        !keys.boolean("remove_extra_whitespaces", false) && !keys.find("precompiled_charsmap"),
        file.origin(), ": its tokenizer rewrites text first, which is not supported");
    if (unigram) read_characters_as_bytes(out.pieces);
    if (unigram)
      for (auto& piece : out.pieces)
        if (piece.type == PieceType::kUserDefined)
          piece.text = replaced(piece.text, " ", kSpaceMark);
    out.add_space_prefix = keys.boolean("add_space_prefix", true);
    add_bos = !unigram;
    if (!unigram) bos = 1;
    out.begins_anew = !unigram;
    eos = unigram ? 1 : 2;
    unknown = unigram ? 2 : 0;
  } else {
    fail(keys.where("model"), " is '", model.substr(0, 80), "'; gpt2, llama and t5 are read");
  }
  out.bos = keys.id("bos_token_id", bos, count);
  out.eos = keys.id("eos_token_id", eos, count);
  out.unknown = keys.id("unknown_token_id", unknown, count);
  out.padding = keys.id("padding_token_id", -1, count);
  if (out.eos == out.unknown) out.eos = -1;  // files without an end write the unknown id here
  out.add_bos = keys.boolean("add_bos_token", add_bos);
  const GgufValue* const name = file.value("general.name");
  if (name && name->as_string()) read_stripping(*name->as_string(), out);
  return out;
}

}  // namespace penstock
