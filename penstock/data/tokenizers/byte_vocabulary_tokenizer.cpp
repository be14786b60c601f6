#include "penstock/data/tokenizers/byte_vocabulary_tokenizer.h"

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/data/text/printable_bytes.h"
#include "penstock/data/tokenizers/tokenizer_files.h"
#include "penstock/data/vocabulary.h"

namespace penstock {
namespace {

const nlohmann::json kNewlineRemoval = {
    {"type", "Replace"}, {"pattern", {{"String", "\n"}}}, {"content", ""}};

class ByteVocabularyTokenizer : public Tokenizer {
 public:
  ByteVocabularyTokenizer(std::string bytes, bool newlines)
      : bytes_(std::move(bytes)), newlines_(newlines) {
    ids_.fill(-1);
    for (std::size_t id = 0; id < bytes_.size(); ++id)
      ids_[static_cast<unsigned char>(bytes_[id])] = static_cast<TokenId>(id);
  }

  std::string spec() const override {
    return newlines_ ? "byte-vocabulary" : "byte-vocabulary-no-newlines";
  }
  std::int64_t vocab_size() const override { return std::ssize(bytes_); }
  TokenId end_of_document() const override { return -1; }

  void encode(std::string_view text, std::vector<TokenId>& ids) const override {
    ids.reserve(ids.size() + text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n' && !newlines_) continue;
      const TokenId id = ids_[static_cast<unsigned char>(text[i])];
      PENSTOCK_CHECK(id >= 0, "the byte ", static_cast<int>(static_cast<unsigned char>(text[i])),
                     " at offset ", i, " is not in the vocabulary of ", bytes_.size(),
                     " bytes; prepare the text with the tokenizer bytes, which has all");
      ids.push_back(id);
    }
  }

  void decode(TokenId id, std::string& text) const override {
    check_id(id);
    text.push_back(bytes_[static_cast<std::size_t>(id)]);
  }

  std::map<std::string, std::string> files() const override {
    const auto names = printable_bytes();
    nlohmann::json vocab = nlohmann::json::object();
    for (std::size_t id = 0; id < bytes_.size(); ++id)
      vocab[names[static_cast<unsigned char>(bytes_[id])]] = id;
    const nlohmann::json level = {{"type", "ByteLevel"},
                                  {"add_prefix_space", false},
                                  {"trim_offsets", true},
                                  {"use_regex", false}};
    const nlohmann::json json = {
        {"version", "1.0"},
        {"added_tokens", nlohmann::json::array()},
        {"normalizer", newlines_ ? nlohmann::json() : kNewlineRemoval},
        {"pre_tokenizer", level},
        {"decoder", level},
        {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::json::array()}}}};
    return {{kBytesFile, json.dump(1) + "\n"}};
  }

  std::optional<Vocabulary> vocabulary() const override {
    if (!newlines_) return std::nullopt;  // a Vocabulary cannot say that newlines are left out
    Vocabulary out{.kind = Vocabulary::Kind::kBytes, .pre = "gpt-2"};
    const auto names = printable_bytes();
    for (const char c : bytes_) out.pieces.push_back({names[static_cast<unsigned char>(c)]});
    return out;
  }

 private:
  std::string bytes_;  // [id]
  std::array<TokenId, 256> ids_;
  bool newlines_;
};

}  // namespace

std::shared_ptr<const Tokenizer> train_byte_vocabulary(std::span<const std::string_view> texts,
                                                       bool newlines) {
  std::array<std::uint64_t, 256> counts{};
  std::string order;  // of first occurrence
  for (const auto text : texts)
    for (const char c : text)
      if (counts[static_cast<unsigned char>(c)]++ == 0 && (newlines || c != '\n')) order += c;
  PENSTOCK_CHECK(!order.empty(), "a byte vocabulary needs text",
                 newlines ? "" : " beside newlines");
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](char c) { return counts[static_cast<unsigned char>(c)]; });
  return std::make_shared<ByteVocabularyTokenizer>(std::move(order), newlines);
}

std::shared_ptr<const Tokenizer> make_byte_vocabulary(const Vocabulary& vocabulary) {
  const auto names = printable_bytes();
  std::string bytes;
  for (const auto& piece : vocabulary.pieces) {
    const auto it = std::ranges::find(names, piece.text);
    PENSTOCK_CHECK(it != names.end() && piece.type == Vocabulary::PieceType::kNormal, "the piece '",
                   piece.text.substr(0, 60), "' of a vocabulary of bytes is none");
    const char byte = static_cast<char>(it - names.begin());
    PENSTOCK_CHECK(bytes.find(byte) == bytes.npos, "the piece '", piece.text,
                   "' comes twice in a vocabulary of bytes");
    bytes += byte;
  }
  return std::make_shared<ByteVocabularyTokenizer>(std::move(bytes), true);
}

std::shared_ptr<const Tokenizer> load_byte_vocabulary(const nlohmann::json& json,
                                                      const std::string& name) {
  const nlohmann::json::json_pointer pointer("/model/vocab"), merges("/model/merges");
  const bool readable = json.is_object() && json.contains(pointer) && json.contains(merges) &&
                        json.at(pointer).is_object() && json.at(merges).is_array() &&
                        json.at(merges).empty();
  PENSTOCK_CHECK(readable, "'", name, "' is not a tokenizer.json with a vocabulary and no merges");
  const auto& vocab = json.at(pointer);
  const auto normalizer = json.value("normalizer", nlohmann::json());
  const bool newlines = normalizer != kNewlineRemoval;
  PENSTOCK_CHECK(!newlines || normalizer.is_null(), "'", name,
                 "' changes the text in a way that Penstock does not write");
  const auto names = printable_bytes();
  std::string bytes(vocab.size(), '\0');
  std::vector<bool> taken(vocab.size());
  for (const auto& [key, value] : vocab.items()) {
    const auto byte = std::ranges::find(names, key) - names.begin();
    const bool good = byte < 256 && value.is_number_unsigned() && value < vocab.size() &&
                      !taken[value.get<std::size_t>()] && (newlines || byte != '\n');
    PENSTOCK_CHECK(good, "'", name, "' is not a byte vocabulary that Penstock writes: entry '", key,
                   "'");
    taken[value.get<std::size_t>()] = true;
    bytes[value.get<std::size_t>()] = static_cast<char>(byte);
  }
  PENSTOCK_CHECK(!bytes.empty(), "'", name, "' has an empty vocabulary");
  auto tokenizer = std::make_shared<ByteVocabularyTokenizer>(std::move(bytes), newlines);
  // A difference would be content that this tokenizer ignores.
  const bool own = json == nlohmann::json::parse(tokenizer->files().at(kBytesFile));
  PENSTOCK_CHECK(own, "'", name, "' is not a byte vocabulary that Penstock writes");
  return tokenizer;
}

}  // namespace penstock
