// Bytes as tokens. The file is a byte-level BPE with 256 entries and no merges in the layout of the
// Hugging Face tokenizers library, so that other programs read it too.
#include "penstock/data/tokenizers/bytes_tokenizer.h"

#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/data/text/printable_bytes.h"
#include "penstock/data/tokenizers/tokenizer_files.h"
#include "penstock/data/vocabulary.h"

namespace penstock {
namespace {

constexpr const char* kEndOfDocument = "<|endoftext|>";

nlohmann::json all_bytes(bool end_of_document) {
  nlohmann::json vocab = nlohmann::json::object();
  const auto names = printable_bytes();
  for (std::size_t byte = 0; byte < names.size(); ++byte)
    vocab[byte == 0 && end_of_document ? kEndOfDocument : names[byte]] = byte;
  return vocab;
}

Vocabulary bytes_vocabulary(bool end_of_document) {
  Vocabulary out{.kind = Vocabulary::Kind::kBytes, .pre = "gpt-2"};
  for (const std::string& name : printable_bytes()) out.pieces.push_back({name});
  if (end_of_document) {
    out.pieces[0] = {kEndOfDocument, 0, Vocabulary::PieceType::kControl};
    out.eos = 0;
  }
  return out;
}

class BytesTokenizer : public Tokenizer {
 public:
  explicit BytesTokenizer(bool end_of_document) : end_of_document_(end_of_document) {}

  std::string spec() const override { return "bytes"; }
  std::int64_t vocab_size() const override { return 256; }
  TokenId end_of_document() const override { return end_of_document_ ? 0 : -1; }

  void encode(std::string_view text, std::vector<TokenId>& ids) const override {
    if (end_of_document_) {
      const auto nul = text.find('\0');
      PENSTOCK_CHECK(
          nul == std::string_view::npos, "the text holds a NUL byte at offset ", nul,
          ", which is the end of a document in this vocabulary; remove it from the text, or make a "
          "corpus of such text with `penstock data prepare --no-eod`");
    }
    ids.reserve(ids.size() + text.size() + 1);
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  }

  void decode(TokenId id, std::string& text) const override {
    PENSTOCK_CHECK(id >= 0 && id < 256, "token id ", id, " is not a byte");
    if (id == 0 && end_of_document_) return;
    text.push_back(static_cast<char>(id));
  }

  std::map<std::string, std::string> files() const override {
    nlohmann::json added = nlohmann::json::array();
    if (end_of_document_)
      added.push_back({{"id", 0},
                       {"content", kEndOfDocument},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", true}});
    const nlohmann::json level = {{"type", "ByteLevel"},
                                  {"add_prefix_space", false},
                                  {"trim_offsets", true},
                                  {"use_regex", false}};
    const nlohmann::json json = {{"version", "1.0"},
                                 {"added_tokens", added},
                                 {"pre_tokenizer", level},
                                 {"decoder", level},
                                 {"model",
                                  {{"type", "BPE"},
                                   {"vocab", all_bytes(end_of_document_)},
                                   {"merges", nlohmann::json::array()}}}};
    return {{kBytesFile, json.dump(1) + "\n"}};
  }

  std::optional<Vocabulary> vocabulary() const override {
    return bytes_vocabulary(end_of_document_);
  }

 private:
  bool end_of_document_;
};

}  // namespace

std::shared_ptr<const Tokenizer> make_bytes_tokenizer(bool end_of_document) {
  return std::make_shared<BytesTokenizer>(end_of_document);
}

std::shared_ptr<const Tokenizer> make_bytes_tokenizer(const Vocabulary& vocabulary) {
  for (const bool end_of_document : {true, false})
    if (vocabulary.pieces == bytes_vocabulary(end_of_document).pieces)
      return make_bytes_tokenizer(end_of_document);
  fail("the vocabulary of bytes does not have each byte as its own id");
}

std::shared_ptr<const Tokenizer> load_bytes_tokenizer(const nlohmann::json& json,
                                                      const std::string& name) {
  const nlohmann::json::json_pointer vocab("/model/vocab"), merges("/model/merges");
  const bool readable = json.is_object() && json.contains(vocab) && json.contains(merges);
  PENSTOCK_CHECK(readable, "'", name, "' is not a tokenizer.json with a vocabulary and merges");
  const bool empty = json.at(merges).is_array() && json.at(merges).empty();
  for (const bool end_of_document : {true, false})
    if (empty && json.at(vocab) == all_bytes(end_of_document))
      return make_bytes_tokenizer(end_of_document);
  fail("'", name, "' is not the byte vocabulary that Penstock writes: 256 entries, no merges");
}

}  // namespace penstock
