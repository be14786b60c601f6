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
#include "penstock/data/tokenizer_files.h"
#include "penstock/data/vocabulary.h"
#include "penstock/data/words_tokenizer.h"

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

/// Not more than a tokenizer has: files from outside are of any size.
std::string read_limited(const std::filesystem::path& path) {
  return real_file_system().read(path, std::uint64_t{128} << 20);
}

/// The file, and of `beside` what there is in its folder, by name.
std::map<std::string, std::string> read_files(const std::filesystem::path& path, const char* name,
                                              std::initializer_list<const char*> beside) {
  std::map<std::string, std::string> files = {{name, read_limited(path)}};
  if (path.filename() != name) return files;  // one of several in a folder
  for (const char* other : beside)
    if (const auto file = path.parent_path() / other; real_file_system().exists(file))
      files[other] = read_limited(file);
  return files;
}

/// Which of those that share the file's name it is.
std::shared_ptr<const Tokenizer> load_json_tokenizer(const std::filesystem::path& path) {
  auto files = read_files(path, kBytesFile, {kTokenizerConfigFile});
  const std::string name = path.string();
  const auto json = nlohmann::json::parse(files.at(kBytesFile), nullptr, false);
  const nlohmann::json::json_pointer type("/model/type"), vocab("/model/vocab"),
      merges("/model/merges"), regex("/pre_tokenizer/use_regex");
  const auto is = [&](const auto& pointer, const nlohmann::json& value) {
    return json.is_object() && json.contains(pointer) && json.at(pointer) == value;
  };
  if (is(type, "WordLevel")) return load_words(json, name);
  if (is(merges, nlohmann::json::array()) && is(regex, false)) {
    const std::size_t size = json.contains(vocab) ? json.at(vocab).size() : 0;
    if (size < 256) return load_byte_vocabulary(json, name);
    if (size == 256) return load_bytes_tokenizer(json, name);
  }
  return read_tokenizer_json(files, name);
}

/// Of a folder's files, or nothing where it is none of them.
std::shared_ptr<const Tokenizer> load_tokenizer_file(const std::filesystem::path& path) {
  const std::string file = path.filename().string();
  if (file == kVocabFile || file == kMergesFile) {
    const auto vocab = path.parent_path() / kVocabFile;
    const auto files = read_files(vocab, kVocabFile, {kMergesFile, kTokenizerConfigFile});
    PENSTOCK_CHECK(files.contains(kMergesFile), "'", vocab.string(), "' has no ", kMergesFile,
                   " beside it");
    return read_vocab_and_merges(files, vocab.string());
  }
  if (file.ends_with(".json")) return load_json_tokenizer(path);
  if (file.ends_with(".bin")) return read_tokenizer_bin(read_limited(path), path.string());
  if (!file.ends_with(".model")) return nullptr;
  auto files = read_files(path, kSentencePieceFile, {kTokenizerConfigFile});
  const std::string content = std::move(files.at(kSentencePieceFile));
  files.erase(kSentencePieceFile);
  return load_sentencepiece_tokenizer(content, path.string(), files);
}

}  // namespace

std::vector<TokenId> Tokenizer::encode(std::string_view text) const {
  std::vector<TokenId> ids;
  encode(text, ids);
  return ids;
}

void Tokenizer::encode_with_controls(std::string_view text, std::vector<TokenId>& ids) const {
  encode(text, ids);
}

std::vector<TokenId> Tokenizer::encode_with_controls(std::string_view text) const {
  std::vector<TokenId> ids;
  encode_with_controls(text, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string text;
  for (const TokenId id : ids) decode(id, text);
  if (drops_first_space() && text.starts_with(' ')) text.erase(0, 1);
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
  if (!std::filesystem::is_directory(path)) {
    PENSTOCK_CHECK(std::filesystem::exists(path), "there is no tokenizer '", path, "'");
    const auto tokenizer = load_tokenizer_file(path);
    PENSTOCK_CHECK(tokenizer, "'", path, "' is no tokenizer's file by its name; ", kBytesFile, ", ",
                   kSentencePieceFile, ", ", kTokenizerBinFile, " and ", kVocabFile, " with ",
                   kMergesFile, " are");
    return tokenizer;
  }
  for (const char* name : kTokenizerFiles)
    if (const auto file = std::filesystem::path(path) / name; std::filesystem::exists(file))
      return load_tokenizer_file(file);
  fail("no tokenizer in '", path, "': expected ", kBytesFile, ", ", kSentencePieceFile, ", ",
       kVocabFile, " with ", kMergesFile, ", or ", kTokenizerBinFile);
}

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
