// What tokenizers share, and choosing one by spec or by the files in a directory.
#include "penstock/data/tokenizer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/data/byte_vocabulary_tokenizer.h"
#include "penstock/data/bytes_tokenizer.h"
#include "penstock/data/sentencepiece_tokenizer.h"
#include "penstock/data/vocabulary.h"
#include "penstock/data/words_tokenizer.h"

namespace penstock {
namespace {

constexpr std::array<std::string_view, 4> kUnsizedKinds = {"bytes", "byte-vocabulary",
                                                           "byte-vocabulary-no-newlines", "words"};

struct Spec {
  std::string kind;
  std::int64_t vocab_size = 0;
};

Spec parse_spec(const std::string& spec) {
  const auto colon = spec.find(':');
  Spec out{spec.substr(0, colon)};
  if (std::ranges::find(kUnsizedKinds, spec) != kUnsizedKinds.end()) return out;
  PENSTOCK_CHECK(out.kind == "bpe" || out.kind == "unigram", "unknown tokenizer '", spec,
                 "'; use bytes, bpe:N or unigram:N, N being the vocabulary's size, "
                 "byte-vocabulary, byte-vocabulary-no-newlines or words");
  const std::string number = colon == std::string::npos ? "" : spec.substr(colon + 1);
  const char* end = number.data() + number.size();
  const auto result = std::from_chars(number.data(), end, out.vocab_size);
  PENSTOCK_CHECK(!number.empty() && result.ec == std::errc() && result.ptr == end, "tokenizer '",
                 spec, "' needs its vocabulary's size, as in ", out.kind, ":4096");
  PENSTOCK_CHECK(out.vocab_size >= kMinPieces && out.vocab_size <= kMaxPieces, "tokenizer '", spec,
                 "': a vocabulary has from ", kMinPieces, " to ", kMaxPieces, " entries");
  return out;
}

/// Which of those that share the file's name it is.
std::shared_ptr<const Tokenizer> load_json_tokenizer(const std::string& content,
                                                     const std::string& name) {
  const auto json = nlohmann::json::parse(content, nullptr, false);
  const nlohmann::json::json_pointer type("/model/type"), vocab("/model/vocab");
  if (json.is_object() && json.contains(type) && json.at(type) == "WordLevel")
    return load_words(json, name);
  if (json.is_object() && json.contains(vocab) && json.at(vocab).size() < 256)
    return load_byte_vocabulary(json, name);
  return load_bytes_tokenizer(json, name);
}

}  // namespace

std::vector<TokenId> Tokenizer::encode(std::string_view text) const {
  std::vector<TokenId> ids;
  encode(text, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  for (const TokenId id : ids) decode(id, text);
  return text;
}

std::vector<std::int32_t> Tokenizer::token_bytes() const {
  std::vector<std::int32_t> out(static_cast<std::size_t>(vocab_size()));
  std::string text;
  for (std::size_t id = 0; id < out.size(); ++id) {
    text.clear();
    decode(static_cast<TokenId>(id), text);
    out[id] = static_cast<std::int32_t>(text.size());
  }
  return out;
}

void Tokenizer::save(const std::string& directory) const {
  for (const auto& [name, content] : files())
    write_file_atomically(real_file_system(), std::filesystem::path(directory) / name, content);
}

std::optional<Vocabulary> Tokenizer::vocabulary() const { return std::nullopt; }

std::shared_ptr<const Tokenizer> load_tokenizer(const std::string& path) {
  auto& fs = real_file_system();
  if (!std::filesystem::is_directory(path)) {
    PENSTOCK_CHECK(fs.exists(path), "there is no tokenizer '", path, "'");
    if (path.ends_with(".model")) return load_sentencepiece_tokenizer(fs.read(path), path);
    return load_json_tokenizer(fs.read(path), path);
  }
  for (const char* name : {kSentencePieceFile, kBytesFile}) {
    const auto file = std::filesystem::path(path) / name;
    if (fs.exists(file)) return load_tokenizer(file.string());
  }
  fail("no tokenizer in '", path, "': expected ", kSentencePieceFile, " or ", kBytesFile);
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

std::shared_ptr<const Tokenizer> make_tokenizer(const Vocabulary& vocabulary) {
  PENSTOCK_CHECK(vocabulary.kind == Vocabulary::Kind::kBytes,
                 "only a vocabulary of bytes makes a tokenizer");
  return make_bytes_tokenizer(vocabulary);
}

}  // namespace penstock
