#include "penstock/data/tokenizers/from_files.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/data/tokenizers/byte_vocabulary_tokenizer.h"
#include "penstock/data/tokenizers/bytes_tokenizer.h"
#include "penstock/data/tokenizers/sentencepiece_tokenizer.h"
#include "penstock/data/tokenizers/tokenizer_bin.h"
#include "penstock/data/tokenizers/tokenizer_files.h"
#include "penstock/data/tokenizers/tokenizer_json.h"
#include "penstock/data/tokenizers/words_tokenizer.h"

namespace penstock {
namespace {

/// Reads a file of at most the size of a tokenizer, since a given file may have any size.
std::string read_limited(const std::filesystem::path& path) {
  return real_file_system().read(path, std::uint64_t{128} << 20);
}

/// Reads the file, and those files of `beside` that its folder has, by name.
std::map<std::string, std::string> read_files(const std::filesystem::path& path, const char* name,
                                              std::initializer_list<const char*> beside) {
  std::map<std::string, std::string> files = {{name, read_limited(path)}};
  if (path.filename() != name) return files;  // the folder may have several tokenizers
  for (const char* other : beside)
    if (const auto file = path.parent_path() / other; real_file_system().exists(file))
      files[other] = read_limited(file);
  return files;
}

/// Loads a tokenizer.json. Its content decides which kind of tokenizer it is.
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

/// Loads a tokenizer by the name of its file; null if the name is no tokenizer file's.
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

}  // namespace penstock
