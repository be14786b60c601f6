#include "penstock/data/tokenizer.h"

#include <filesystem>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/data/vocabulary.h"

namespace penstock {

TokenId Tokenizer::beginning_of_document() const {
  const auto vocabulary = this->vocabulary();
  return vocabulary && vocabulary->add_bos ? vocabulary->bos : -1;
}

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

void Tokenizer::check_id(TokenId id) const {
  PENSTOCK_CHECK(id >= 0 && id < vocab_size(), "token id ", id, " is outside the vocabulary of ",
                 vocab_size());
}

std::vector<TokenId> Tokenizer::encode_file(const std::string& file, std::string_view text) const {
  try {
    return encode(text);
  } catch (const Error& error) {
    fail(file, ": ", error.what());
  }
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

}  // namespace penstock
