#include "penstock/models/formats/gguf_tokenizer.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/data/text/byte_pieces.h"
#include "penstock/data/text/pre_tokenizers.h"
#include "penstock/data/text/unicode.h"
#include "penstock/models/formats/gguf_tokenizer_keys.h"

namespace penstock {
namespace {

using Kind = Vocabulary::Kind;
using PieceType = Vocabulary::PieceType;

std::int32_t type_number(PieceType type) {
  return std::ranges::find(kGgufPieceTypes, type, &std::pair<PieceType, std::int32_t>::first)
      ->second;
}

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

/// Writes the keys of the model, the rule for words and the merges. Adds notes on differences.
void put_model(const Vocabulary& v, GgufTokenizer& out) {
  GgufMetadata& keys = out.metadata;
  switch (v.kind) {
    case Kind::kBytes:
      put_key(keys, "model", GgufValue::string("gpt2"));
      // Without merges every rule gives the same tokens. With this rule decoding removes no spaces.
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
          "llama.cpp, which takes U+2581 in text for a space");
      out.notes.emplace_back(
          "sums of scores are rounded to 32 bits here and to 64 in llama.cpp, so that of cuts that "
          "are worth the same, as in long runs of one character, another may be taken");
      break;
  }
}

/// The texts of the first few added tokens that have the trait, and the number of the others.
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

/// Adds notes on pieces that llama.cpp finds in text differently. GGUF has keys only for a piece's
/// text itself.
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

/// Gives ASCII bytes to llama.cpp's t5, which has no byte pieces. ASCII bytes are characters too.
/// If no piece has the character, the byte's piece becomes that character, with the score of an
/// unknown character.
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
    texts.push_back(gguf_filler_name(static_cast<std::size_t>(id)));
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
  // Without this key llama.cpp uses a default id for the end.
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

}  // namespace penstock
