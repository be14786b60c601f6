#include "penstock/data/tokenizers/from_spec.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "penstock/base/error.h"
#include "penstock/data/tokenizers/byte_vocabulary_tokenizer.h"
#include "penstock/data/tokenizers/bytes_tokenizer.h"
#include "penstock/data/tokenizers/sentencepiece_tokenizer.h"
#include "penstock/data/tokenizers/words_tokenizer.h"

namespace penstock {
namespace {

constexpr std::array<std::string_view, 4> kUnsizedKinds = {"bytes", "byte-vocabulary",
                                                           "byte-vocabulary-no-newlines", "words"};

bool is_unsized(std::string_view kind) {
  return std::ranges::find(kUnsizedKinds, kind) != kUnsizedKinds.end();
}
bool is_sized(std::string_view kind) { return kind == "bpe" || kind == "unigram"; }

struct Spec {
  std::string kind;
  std::int64_t vocab_size = 0;
};

Spec parse_spec(const std::string& spec) {
  const auto colon = spec.find(':');
  Spec out{spec.substr(0, colon)};
  if (is_unsized(spec)) return out;
  PENSTOCK_CHECK(is_sized(out.kind), "unknown tokenizer '", spec, "'; use ", kTokenizerKinds);
  const std::string number = colon == std::string::npos ? "" : spec.substr(colon + 1);
  const char* end = number.data() + number.size();
  const auto result = std::from_chars(number.data(), end, out.vocab_size);
  PENSTOCK_CHECK(!number.empty() && result.ec == std::errc() && result.ptr == end, "tokenizer '",
                 spec, "' needs its vocabulary's size, as in ", out.kind, ":4096");
  PENSTOCK_CHECK(out.vocab_size >= kMinPieces && out.vocab_size <= kMaxPieces, "tokenizer '", spec,
                 "': a vocabulary has from ", kMinPieces, " to ", kMaxPieces, " entries");
  return out;
}

}  // namespace

bool is_tokenizer_kind(const std::string& spec) {
  const std::string kind = spec.substr(0, spec.find(':'));
  return is_unsized(kind) || is_sized(kind);
}

TokenizerTraits tokenizer_traits(const std::string& spec) {
  const std::string kind = parse_spec(spec).kind;
  if (kind == "bytes") return {.bytes = true};
  if (kind == "words") return {.ends_documents = false, .lines = true};
  if (kind.starts_with("byte-vocabulary"))
    return {.ends_documents = false, .bytes = true, .all_splits = true};
  return {};
}

std::shared_ptr<const Tokenizer> make_tokenizer(const std::string& spec,
                                                std::span<const std::string_view> texts,
                                                bool end_of_document) {
  const Spec parsed = parse_spec(spec);
  if (parsed.kind == "bytes") return make_bytes_tokenizer(end_of_document);
  if (parsed.kind == "words") return train_words(texts);
  if (parsed.kind.starts_with("byte-vocabulary"))
    return train_byte_vocabulary(texts, parsed.kind == "byte-vocabulary");
  return train_sentencepiece_tokenizer(parsed.kind, parsed.vocab_size, texts);
}

}  // namespace penstock
