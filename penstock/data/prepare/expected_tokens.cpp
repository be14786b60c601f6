#include "penstock/data/prepare/expected_tokens.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/data/corpus/documents.h"
#include "penstock/data/text_files.h"
#include "penstock/data/tokenizer.h"
#include "penstock/data/utf8.h"

namespace penstock {
namespace {

/// Files that are picked from a large folder.
constexpr std::size_t kPickedFiles = 16;

/// The number of tokens for each byte, in the beginnings of up to 16 documents.
double tokens_per_byte(const Tokenizer& tokenizer, const std::vector<Document>& documents) {
  constexpr std::size_t kMostDocuments = 16, kEncodedBytes = 1 << 18;
  const std::size_t picked = std::min(kMostDocuments, documents.size());
  double bytes = 0, tokens = 0;
  for (std::size_t i = 0; i < picked; ++i) {
    std::string_view text = documents[i * documents.size() / picked].text;
    text = text.substr(0, kEncodedBytes / picked);
    text = text.substr(0, find_invalid_utf8(text));  // without a torn last character
    bytes += static_cast<double>(text.size());
    tokens += static_cast<double>(tokenizer.encode(text).size());
  }
  return bytes > 0 ? tokens / bytes : 0;
}

double tokens_in(const std::vector<Document>& documents, const Tokenizer* tokenizer) {
  double bytes = 0;
  for (const Document& document : documents) bytes += static_cast<double>(document.text.size());
  return tokenizer ? bytes * tokens_per_byte(*tokenizer, documents) : bytes;
}

/// The file's first `most` bytes, and what follows them up to the end of a line.
std::string beginning_of(const std::filesystem::path& file, std::uintmax_t most) {
  std::string out(static_cast<std::size_t>(most), '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(out.data(), static_cast<std::streamsize>(out.size()));
  out.resize(static_cast<std::size_t>(in.gcount()));
  if (std::string rest; !out.ends_with('\n') && std::getline(in, rest)) out += rest + "\n";
  return out;
}

/// The tokens for each stored byte of a file.
double tokens_per_stored_byte(const std::filesystem::path& file, std::uintmax_t size,
                              std::uintmax_t most_read, const Tokenizer* tokenizer) {
  const std::string name = file.string();
  if (size <= most_read || is_packed_name(name))
    return tokens_in(read_documents({.path = name}, {}), tokenizer) / static_cast<double>(size);
  std::string text = beginning_of(file, most_read);
  const auto bytes = static_cast<double>(text.size());
  return bytes > 0 ? tokens_in(documents_in(name, text, {}), tokenizer) / bytes : 0;
}

}  // namespace

double expected_tokens(const std::string& path, const Tokenizer* tokenizer,
                       std::uintmax_t most_read) {
  const auto files = document_files(path);
  std::vector<std::uintmax_t> sizes;
  std::uintmax_t stored = 0;
  for (const auto& file : files) {
    // read_nonempty() says what is wrong with a pipe or a device.
    sizes.push_back(std::filesystem::is_regular_file(file) ? std::filesystem::file_size(file) : 0);
    stored += sizes.back();
  }
  if (stored <= most_read) return tokens_in(read_nonempty({.path = path}, {}), tokenizer);
  std::size_t file = 0, last_read = files.size();
  std::uintmax_t before = 0;  // the stored bytes of the files before `file`
  double of_byte = 0, sum = 0;
  for (std::size_t pick = 0; pick < kPickedFiles; ++pick) {
    const std::uintmax_t position = stored / (2 * kPickedFiles) * (2 * pick + 1);
    while (before + sizes[file] <= position) before += sizes[file++];
    if (file != last_read)
      of_byte =
          tokens_per_stored_byte(files[file], sizes[file], most_read / kPickedFiles, tokenizer);
    last_read = file;
    sum += of_byte;
  }
  return static_cast<double>(stored) * sum / kPickedFiles;
}

}  // namespace penstock
