// Opens a corpus and counts its texts.
#include "penstock/data/corpus/corpus.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "penstock/base/checksum.h"
#include "penstock/base/error.h"
#include "penstock/base/file_system.h"
#include "penstock/data/tokenizers/from_files.h"

namespace penstock {

struct Corpus::State {
  std::string path;
  TokenFile file;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<std::int32_t> token_bytes;
  std::array<std::vector<TextCount>, kSplits> counts;  // [split][domain]
  std::string hash;
};

Corpus Corpus::open(const std::string& path) {
  const std::filesystem::path root(path);
  PENSTOCK_CHECK(std::filesystem::is_directory(root), "no corpus at '", path,
                 "': it is not a directory; make one with `penstock data prepare INPUT --out ",
                 path, "`");
  PENSTOCK_CHECK(std::filesystem::exists(root / kTokensFile), "no corpus at '", path,
                 "': it holds no ", kTokensFile, "; make one with 'penstock data prepare'");
  auto file = TokenFile::open((root / kTokensFile).string());
  auto tokenizer = load_tokenizer(path);
  PENSTOCK_CHECK(tokenizer->vocab_size() == file.vocab_size(), "the corpus '", path,
                 "' was not made with the tokenizer beside it: its tokens count ",
                 file.vocab_size(), " entries and the tokenizer ", tokenizer->vocab_size());
  Xxh64 hash;
  const std::uint64_t content = file.content_hash();
  hash.update(std::as_bytes(std::span(&content, 1)));
  for (const auto& [name, bytes] : tokenizer->files()) hash.update(bytes_of(bytes));
  State state{.path = path,
              .file = std::move(file),
              .tokenizer = std::move(tokenizer),
              .hash = fmt::format("{:016x}", hash.value())};
  state.token_bytes = state.tokenizer->token_bytes();
  for (auto& counts : state.counts) counts.resize(state.file.domains().size());
  for (const auto& document : state.file.documents()) {
    auto& count = state.counts[static_cast<std::size_t>(document.split)][document.domain];
    ++count.documents;
    count.tokens += static_cast<std::int64_t>(document.tokens);
    count.bytes += static_cast<std::int64_t>(document.bytes);
  }
  return Corpus(std::make_shared<const State>(std::move(state)));
}

const std::string& Corpus::path() const { return state_->path; }
const TokenFile& Corpus::file() const { return state_->file; }
const Tokenizer& Corpus::tokenizer() const { return *state_->tokenizer; }
std::string Corpus::tokenizer_spec() const { return state_->tokenizer->spec(); }
std::int64_t Corpus::vocab_size() const { return state_->file.vocab_size(); }
const std::vector<std::string>& Corpus::domains() const { return state_->file.domains(); }
std::span<const std::int32_t> Corpus::token_bytes() const { return state_->token_bytes; }
std::string Corpus::content_hash() const { return state_->hash; }

TextCount Corpus::count(Split split, std::size_t domain) const {
  PENSTOCK_ASSERT(domain < domains().size());
  return state_->counts[static_cast<std::size_t>(split)][domain];
}

TextCount Corpus::count(Split split) const {
  TextCount total;
  for (const auto& count : state_->counts[static_cast<std::size_t>(split)]) {
    total.documents += count.documents;
    total.tokens += count.tokens;
    total.bytes += count.bytes;
  }
  return total;
}

}  // namespace penstock
