#include "penstock/models/formats/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/data/text/byte_pieces.h"
#include "penstock/data/text/pre_tokenizers.h"
#include "penstock/data/text/unicode.h"

namespace penstock {
namespace {

using Kind = Vocabulary::Kind;
using PieceType = Vocabulary::PieceType;

constexpr std::string_view kKeys = "tokenizer.ggml.";

// Numbers of token types in files.
constexpr std::array<std::pair<PieceType, std::int32_t>, 6> kPieceTypes = {
    {{PieceType::kNormal, 1},
     {PieceType::kUnknown, 2},
     {PieceType::kControl, 3},
     {PieceType::kUserDefined, 4},
     {PieceType::kUnused, 5},
     {PieceType::kByte, 6}}};

std::int32_t type_number(PieceType type) {
  return std::ranges::find(kPieceTypes, type, &std::pair<PieceType, std::int32_t>::first)->second;
}

/// Name of a row of the embedding that the tokenizer never uses; converters agree on it.
std::string filler_name(std::size_t id) { return "[PAD" + std::to_string(id) + "]"; }

std::string ggml_key(std::string_view name) { return std::string(kKeys) + std::string(name); }

void put_key(GgufMetadata& out, std::string_view name, GgufValue value) {
  out.emplace_back(ggml_key(name), std::move(value));
}

void put_id(GgufMetadata& out, std::string_view name, TokenId id) {
  if (id >= 0) put_key(out, name, GgufValue::u32(static_cast<std::uint32_t>(id)));
}

bool sentencepiece(Kind kind) {
  return kind == Kind::kSentencePieceBpe || kind == Kind::kSentencePieceUnigram;
}

void check_every_byte(const Vocabulary& vocabulary) {
  const auto bytes =
      std::ranges::count(vocabulary.pieces, PieceType::kByte, &Vocabulary::Piece::type);
  PENSTOCK_CHECK(bytes == 256, "the tokenizer has pieces for ", bytes,
                 " of 256 single bytes; llama.cpp ends where one is missing");
}

/// Model, rule for words and merges; notes of what differs.
void put_model(const Vocabulary& v, GgufTokenizer& out) {
  GgufMetadata& keys = out.metadata;
  switch (v.kind) {
    case Kind::kBytes:
      put_key(keys, "model", GgufValue::string("gpt2"));
      // Any rule will do where nothing merges; under this one nothing is tidied when decoding.
      put_key(keys, "pre", GgufValue::string("qwen2"));
      put_key(keys, "merges", GgufValue::strings({}));
      out.notes.emplace_back("llama.cpp replaces bytes that are not UTF-8 by U+FFFD");
      break;
    case Kind::kByteBpe: {
      const PreTokenizer* const rule = find_pre_tokenizer(v.pre);
      PENSTOCK_CHECK(
          rule && rule->whole_words == v.ignore_merges,
          "the tokenizer's rule for words has no name in llama.cpp, which would cut text "
          "otherwise; export without it (`penstock export --tokenizer none`)");
      put_key(keys, "model", GgufValue::string("gpt2"));
      put_key(keys, "pre", GgufValue::string(v.pre));
      std::vector<std::string> merges;
      merges.reserve(v.merges.size());
      for (const auto& [left, right] : v.merges) merges.push_back(left + " " + right);
      put_key(keys, "merges", GgufValue::strings(std::move(merges)));
      if (v.compose)
        out.notes.emplace_back(
            "text that is not in Unicode's composed form (NFC) is composed here, not by llama.cpp");
      break;
    }
    case Kind::kSentencePieceBpe:
      check_every_byte(v);
      put_key(keys, "model", GgufValue::string("llama"));
      put_key(keys, "pre", GgufValue::string("default"));
      out.notes.emplace_back("llama.cpp takes the character U+2581 in text for a space");
      break;
    case Kind::kSentencePieceUnigram:
      put_key(keys, "model", GgufValue::string("t5"));
      put_key(keys, "pre", GgufValue::string("default"));
      out.notes.emplace_back(
          "characters beyond ASCII that no piece has are bytes here and the unknown piece in "
          "llama.cpp, "
          "which takes U+2581 in text for a space");
      out.notes.emplace_back(
          "sums of scores are rounded to 32 bits here and to 64 in llama.cpp, so that of cuts that "
          "are worth the same, as in long runs of one character, another may be taken");
      break;
  }
}

/// The texts of the added tokens that have the trait: the first few.
template <class Trait>
std::string with_trait(const Vocabulary& v, Trait trait) {
  constexpr int kShown = 3;
  std::string out;
  int count = 0;
  for (const AddedToken& token : v.added) {
    if (!trait(token)) continue;
    if (++count <= kShown) out += concat(out.empty() ? "'" : ", '", token.content, "'");
  }
  return count > kShown ? concat(out, " and ", count - kShown, " more") : out;
}

/// How llama.cpp seeks pieces in text otherwise: it has no key for what goes beyond the text
/// itself.
void note_pieces(const Vocabulary& v, std::vector<std::string>& notes) {
  const auto note = [&](const std::string& pieces, const char* here) {
    if (!pieces.empty()) notes.push_back(concat(pieces, here));
  };
  note(with_trait(v, [](const AddedToken& token) { return token.rstrip; }),
       ": takes the white space after it along here, in llama.cpp only where the file's name has "
       "phi-3 in it");
  note(with_trait(v, [](const AddedToken& token) { return token.lstrip; }),
       ": takes the white space before it along here, not in llama.cpp");
  note(with_trait(v, [](const AddedToken& token) { return token.single_word; }),
       ": is found here only as a word of its own, in llama.cpp within words too");
  if (sentencepiece(v.kind) && v.add_space_prefix)
    note(with_trait(v, [](const AddedToken& token) { return token.normalized; }),
         ": is found here only behind a space or where text begins, in llama.cpp anywhere");
  if (const std::string difference = difference_after_pieces(v); !difference.empty())
    notes.push_back(difference + " (llama.cpp)");
}

/// llama.cpp's t5 knows no bytes. Those of ASCII are characters too: where none is a piece already,
/// the byte's piece stands for it, at the score that an unknown character has.
void put_bytes_as_characters(const Vocabulary& v, std::vector<std::string>& texts,
                             std::vector<float>& scores, std::vector<std::int32_t>& types) {
  std::set<std::string_view> characters;
  float lowest = 0;
  for (const auto& piece : v.pieces)
    if (piece.type == PieceType::kNormal) {
      characters.insert(piece.text);
      lowest = std::min(lowest, piece.score);
    }
  for (std::size_t id = 0; id < v.pieces.size(); ++id) {
    const int byte = v.pieces[id].type == PieceType::kByte ? piece_byte(v.pieces[id].text) : -1;
    const std::string character(1, static_cast<char>(byte));
    if (byte <= 0 || byte >= 0x80 || byte == ' ' || characters.contains(character)) continue;
    texts[id] = character;
    scores[id] = lowest - 10;
    types[id] = type_number(PieceType::kNormal);
  }
}

/// The other way: characters that stand where a byte's piece is missing.
void read_characters_as_bytes(std::vector<Vocabulary::Piece>& pieces) {
  std::set<int> bytes;
  for (const auto& piece : pieces)
    if (piece.type == PieceType::kByte) bytes.insert(piece_byte(piece.text));
  if (bytes.size() < 128) return;  // no byte was ever among them
  for (auto& piece : pieces) {
    if (piece.type != PieceType::kNormal || piece.text.size() != 1) continue;
    const auto byte = static_cast<unsigned char>(piece.text[0]);
    if (!bytes.insert(byte).second) continue;
    piece = {.text = byte_piece(byte), .score = 0, .type = PieceType::kByte};
  }
}

void put_pieces(const Vocabulary& v, std::int64_t vocab_size, GgufMetadata& out) {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  for (const auto& piece : v.pieces) {
    const bool spaced = sentencepiece(v.kind) && !v.begins_anew;  // U+2581 in it is a space
    texts.push_back(spaced && piece.type == PieceType::kUserDefined
                        ? replaced(piece.text, kSpaceMark, " ")
                        : piece.text);
    scores.push_back(piece.score);
    types.push_back(type_number(piece.type));
  }
  if (v.kind == Kind::kSentencePieceUnigram) put_bytes_as_characters(v, texts, scores, types);
  for (std::int64_t id = std::ssize(v.pieces); id < vocab_size; ++id) {
    texts.push_back(filler_name(static_cast<std::size_t>(id)));
    scores.push_back(-10000);
    types.push_back(type_number(PieceType::kUnused));
  }
  put_key(out, "tokens", GgufValue::strings(std::move(texts)));
  if (sentencepiece(v.kind)) put_key(out, "scores", GgufValue::f32s(scores));
  put_key(out, "token_type", GgufValue::i32s(types));
}

void put_special(const Vocabulary& v, GgufTokenizer& out) {
  GgufMetadata& keys = out.metadata;
  put_id(keys, "bos_token_id", v.bos >= 0 ? v.bos : v.eos);
  // Without the key llama.cpp takes a number of its own for the end.
  put_id(keys, "eos_token_id", v.eos >= 0 ? v.eos : v.unknown);
  put_id(keys, "unknown_token_id", v.unknown);
  put_id(keys, "padding_token_id", v.padding);
  if (v.eos < 0 && v.unknown < 0)
    out.notes.emplace_back(
        "the tokenizer has no end of document; llama.cpp stops generating at a token of its own "
        "choice");
  put_key(keys, "add_bos_token", GgufValue::boolean(v.add_bos));
  put_key(keys, "add_eos_token", GgufValue::boolean(false));
  if (!sentencepiece(v.kind)) return;
  put_key(keys, "add_space_prefix", GgufValue::boolean(v.add_space_prefix));
  put_key(keys, "remove_extra_whitespaces", GgufValue::boolean(false));
}

/// Values of the file by short key, with errors that name file and key.
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
  bool truth(std::string_view name, bool otherwise) const {
    const GgufValue* const value = find(name);
    PENSTOCK_CHECK(!value || value->as_bool(), where(name), " is no truth value");
    return value ? *value->as_bool() : otherwise;
  }
  TokenId id(std::string_view name, TokenId otherwise, std::size_t pieces) const {
    const GgufValue* const value = find(name);
    if (!value) return otherwise < static_cast<TokenId>(pieces) ? otherwise : -1;
    const auto number = value->as_integer();
    PENSTOCK_CHECK(number, where(name), " is no token id");
    // Files say 2^32 - 1, or another number beyond the list, for "none".
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
  for (const auto& [type, known] : kPieceTypes)
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
         out.pieces.back().text == filler_name(out.pieces.size() - 1))
    out.pieces.pop_back();
}

void read_merges(const TokenizerKeys& keys, Vocabulary& out) {
  for (const std::string& merge : keys.texts("merges")) {
    const auto space = merge.find(' ', 1);  // the first character may be one
    PENSTOCK_CHECK(space != std::string::npos && space + 1 < merge.size(), keys.where("merges"),
                   " holds '", merge.substr(0, 80), "', which is no pair");
    out.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
}

void read_rule(const TokenizerKeys& keys, Vocabulary& out) {
  const std::string name = keys.text("pre");
  const PreTokenizer* const rule = find_pre_tokenizer(name);
  out.pre = rule ? std::string(rule->name) : name;  // an error where text is to be cut
  if (!rule) return;
  out.ignore_merges = rule->whole_words;
  out.compose = rule->composes;  // as the tokenizers that this rule comes from
}

/// Pieces that take the white space after them along: no key says it, and llama.cpp goes by the
/// model's name.
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

}  // namespace

GgufTokenizer gguf_tokenizer(const Vocabulary& vocabulary, std::int64_t vocab_size) {
  PENSTOCK_CHECK(std::ssize(vocabulary.pieces) <= vocab_size, "the tokenizer has ",
                 vocabulary.pieces.size(), " pieces, the model's vocabulary is ", vocab_size,
                 "; export without it (`penstock export --tokenizer none`)");
  GgufTokenizer out;
  put_model(vocabulary, out);
  note_pieces(vocabulary, out.notes);
  put_pieces(vocabulary, vocab_size, out.metadata);
  put_special(vocabulary, out);
  return out;
}

GgufTokenizer no_gguf_tokenizer(const std::string& architecture, std::int64_t vocab_size) {
  GgufTokenizer out;
  put_key(out.metadata, "model", GgufValue::string("none"));
  out.metadata.emplace_back(architecture + ".vocab_size",
                            GgufValue::u32(static_cast<std::uint32_t>(vocab_size)));
  return out;
}

Vocabulary read_gguf_vocabulary(const GgufFile& file) {
  const TokenizerKeys keys(file);
  Vocabulary out;
  const std::string model = keys.text("model");
  read_pieces(keys, out);
  const std::size_t count = out.pieces.size();
  // What llama.cpp takes where a file does not say.
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
        !keys.truth("remove_extra_whitespaces", false) && !keys.find("precompiled_charsmap"),
        file.origin(), ": its tokenizer rewrites text first, which is not supported");
    if (unigram) read_characters_as_bytes(out.pieces);
    if (unigram)
      for (auto& piece : out.pieces)
        if (piece.type == PieceType::kUserDefined)
          piece.text = replaced(piece.text, " ", kSpaceMark);
    out.add_space_prefix = keys.truth("add_space_prefix", true);
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
  if (out.eos == out.unknown) out.eos = -1;  // written so where there is no end
  out.add_bos = keys.truth("add_bos_token", add_bos);
  const GgufValue* const name = file.value("general.name");
  if (name && name->as_string()) read_stripping(*name->as_string(), out);
  return out;
}

}  // namespace penstock
