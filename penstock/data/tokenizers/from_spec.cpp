#include "penstock/data/tokenizers/from_spec.h"

#include <array>
#include <string_view>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/base/parse_number.h"
#include "penstock/data/tokenizers/byte_vocabulary_tokenizer.h"
#include "penstock/data/tokenizers/bytes_tokenizer.h"
#include "penstock/data/tokenizers/sentencepiece_tokenizer.h"
#include "penstock/data/tokenizers/words_tokenizer.h"

namespace penstock {
namespace {

enum class SpecKind { bytes, byte_vocabulary, byte_vocabulary_no_newlines, words, bpe, unigram };
constexpr std::array<std::string_view, 6> words(SpecKind) {
  return {"bytes", "byte-vocabulary", "byte-vocabulary-no-newlines", "words", "bpe", "unigram"};
}

/// Whether a spec of the kind gives the size of the vocabulary.
bool is_sized(SpecKind kind) { return kind == SpecKind::bpe || kind == SpecKind::unigram; }

struct Spec {
  SpecKind kind = SpecKind::bytes;
  std::int64_t vocab_size = 0;
};

Spec parse_spec(const std::string& spec) {
  const auto colon = spec.find(':');
  const auto kind = of_word<SpecKind>(std::string_view(spec).substr(0, colon));
  PENSTOCK_CHECK(kind && (is_sized(*kind) || colon == std::string::npos), "unknown tokenizer '",
                 spec, "'; use ", kTokenizerKinds);
  Spec out{*kind};
  if (!is_sized(out.kind)) return out;
  const std::string number = colon == std::string::npos ? "" : spec.substr(colon + 1);
  const auto size = parse_number<decltype(out.vocab_size)>(number);
  PENSTOCK_CHECK(size, "tokenizer '", spec, "' needs its vocabulary's size, as in ", word(out.kind),
                 ":4096");
  out.vocab_size = *size;
  PENSTOCK_CHECK(out.vocab_size >= kMinPieces && out.vocab_size <= kMaxPieces, "tokenizer '", spec,
                 "': a vocabulary has from ", kMinPieces, " to ", kMaxPieces, " entries");
  return out;
}

}  // namespace

bool is_tokenizer_kind(const std::string& spec) {
  return of_word<SpecKind>(std::string_view(spec).substr(0, spec.find(':'))).has_value();
}

TokenizerTraits tokenizer_traits(const std::string& spec) {
  switch (parse_spec(spec).kind) {
    case SpecKind::bytes:
      return {.bytes = true};
    case SpecKind::words:
      return {.ends_documents = false, .lines = true};
    case SpecKind::byte_vocabulary:
    case SpecKind::byte_vocabulary_no_newlines:
      return {.ends_documents = false, .bytes = true, .all_splits = true};
    case SpecKind::bpe:
    case SpecKind::unigram:
      return {};
  }
  return {};
}

std::shared_ptr<const Tokenizer> make_tokenizer(const std::string& spec,
                                                std::span<const std::string_view> texts,
                                                bool end_of_document) {
  const Spec parsed = parse_spec(spec);
  switch (parsed.kind) {
    case SpecKind::bytes:
      return make_bytes_tokenizer(end_of_document);
    case SpecKind::words:
      return train_words(texts);
    case SpecKind::byte_vocabulary:
      return train_byte_vocabulary(texts, true);
    case SpecKind::byte_vocabulary_no_newlines:
      return train_byte_vocabulary(texts, false);
    case SpecKind::bpe:
    case SpecKind::unigram:
      break;
  }
  return train_sentencepiece_tokenizer(std::string(word(parsed.kind)), parsed.vocab_size, texts);
}

}  // namespace penstock
