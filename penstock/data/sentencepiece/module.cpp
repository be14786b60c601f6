// The SentencePiece module: the only file that uses libsentencepiece, loaded by
// sentencepiece_tokenizer.cpp. SentencePiece is kept lossless. Text is encoded line by line, as it
// is trained, so no piece crosses the end of a line and long documents cost linear time.
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <charconv>
#include <map>
#include <optional>
#include <unordered_map>

#include "penstock/base/error.h"
#include "penstock/data/sentencepiece/functions.h"
#include "penstock/data/sentencepiece_tokenizer.h"

namespace penstock {
namespace {

constexpr std::size_t kTrainingBytes = 10'000'000;
constexpr std::size_t kLongestSentence = 4096;
// U+2581 stands for a space inside SentencePiece, so a real one has to go as its three bytes.
constexpr std::string_view kSpaceMark = "\xe2\x96\x81";

/// Calls with each line, its newline included.
template <class Visitor>
void for_each_line(std::string_view text, Visitor visit) {
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('\n'), text.size() - 1) + 1;
    visit(text.substr(0, length));
    text.remove_prefix(length);
  }
}

/// The sample of the texts to train on: whole lines, cut at tabs, evenly spread over the texts.
class Sentences : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(std::span<const std::string_view> texts) {
    std::size_t total = 0;
    for (const auto text : texts) total += text.size();
    const std::size_t every = total / kTrainingBytes + 1;
    std::size_t line_number = 0;
    for (const auto text : texts)
      for_each_line(text, [&](std::string_view line) {
        if (line_number++ % every == 0) add(line);
      });
  }
  bool done() const override { return next_ == sentences_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return sentences_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  void add(std::string_view line) {
    // The library reserves these characters: it would skip the whole line.
    if (line.find(kSpaceMark) != line.npos || line.find('\0') != line.npos) return;
    for (std::size_t begin = 0; begin < line.size();) {
      const std::size_t tab = std::min(line.find('\t', begin), line.size());
      for (std::size_t at = begin; at < tab;) {
        std::size_t end = std::min(tab, at + kLongestSentence);
        // Back to the start of a character.
        while (end < tab && (line[end] & 0xc0) == 0x80 && end > at + 1) --end;
        sentences_.emplace_back(line.substr(at, end - at));
        at = end;
      }
      begin = tab + 1;
    }
  }

  std::vector<std::string> sentences_;
  std::size_t next_ = 0;
};

/// The fields of one protocol-buffer message that hold numbers or bytes; enough to look into a
/// model file for what the library does not tell. Source: protobuf.dev, "Encoding".
class Message {
 public:
  explicit Message(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto key = varint(bytes);
      if (!key) return;
      const auto field = static_cast<int>(*key >> 3);
      std::size_t skip = 0;
      switch (*key & 7) {
        case 0: {
          const auto value = varint(bytes);
          if (!value) return;
          numbers_[field] = *value;
          break;
        }
        case 1:
          skip = 8;
          break;
        case 2: {
          const auto length = varint(bytes);
          if (!length || *length > bytes.size()) return;
          skip = *length;
          messages_[field] = bytes.substr(0, skip);
          break;
        }
        case 5:
          skip = 4;
          break;
        default:
          return;
      }
      if (skip > bytes.size()) return;
      bytes.remove_prefix(skip);
    }
  }
  std::uint64_t number(int field, std::uint64_t otherwise) const {
    const auto it = numbers_.find(field);
    return it == numbers_.end() ? otherwise : it->second;
  }
  Message message(int field) const {
    const auto it = messages_.find(field);
    return Message(it == messages_.end() ? std::string_view() : it->second);
  }

 private:
  static std::optional<std::uint64_t> varint(std::string_view& bytes) {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }
  std::map<int, std::uint64_t> numbers_;
  std::map<int, std::string_view> messages_;
};

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string model, const std::string& name) : model_(std::move(model)) {
    const auto status = processor_.LoadFromSerializedProto(model_);
    PENSTOCK_CHECK(status.ok(), "'", name,
                   "' is not a usable SentencePiece model: ", status.ToString());
    // Field numbers of sentencepiece_model.proto.
    const Message proto(model_), normalizer = proto.message(3);
    PENSTOCK_CHECK(
        !normalizer.number(3, 1) && !normalizer.number(4, 1), "'", name,
        "' adds or removes white space, so text would not survive; train a tokenizer with "
        "--tokenizer bpe:N or unigram:N");
    spec_ = concat(proto.message(2).number(3, 1) == 2 ? "bpe:" : "unigram:", vocab_size());
    read_pieces(name);
  }

  std::string spec() const override { return spec_; }
  std::int64_t vocab_size() const override { return processor_.GetPieceSize(); }
  TokenId end_of_document() const override { return processor_.eos_id(); }

  void encode(std::string_view text, std::vector<TokenId>& ids) const override {
    for_each_line(text, [&](std::string_view line) {
      for (;;) {
        const std::size_t mark = line.find(kSpaceMark);
        encode_plain(line.substr(0, mark), ids);
        if (mark == line.npos) return;
        for (const char c : kSpaceMark) ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
        line.remove_prefix(mark + kSpaceMark.size());
      }
    });
  }

  void decode(TokenId id, std::string& text) const override {
    PENSTOCK_CHECK(id >= 0 && id < vocab_size(), "token id ", id, " is outside the vocabulary of ",
                   vocab_size());
    text += pieces_[static_cast<std::size_t>(id)];
  }

  std::map<std::string, std::string> files() const override {
    return {{kSentencePieceFile, model_}};
  }

 private:
  void encode_plain(std::string_view text, std::vector<TokenId>& ids) const {
    if (text.empty()) return;
    std::vector<int> pieces;
    const auto status = processor_.Encode(std::string(text), &pieces);
    PENSTOCK_CHECK(status.ok(), "SentencePiece cannot encode the text: ", status.ToString());
    ids.insert(ids.end(), pieces.begin(), pieces.end());
  }

  void read_pieces(const std::string& name) {
    byte_ids_.assign(256, -1);
    for (int id = 0; id < processor_.GetPieceSize(); ++id) {
      std::string text;
      if (processor_.IsByte(id)) {
        // "<0x0A>"
        const std::string& piece = processor_.IdToPiece(id);
        unsigned byte = 256;
        if (piece.size() == 6) std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
        PENSTOCK_CHECK(byte < 256, "'", name, "': odd byte piece '", piece, "'");
        byte_ids_[byte] = id;
        text.push_back(static_cast<char>(byte));
      } else if (!processor_.IsControl(id) && !processor_.IsUnknown(id)) {
        text = processor_.IdToPiece(id);
        for (auto at = text.find(kSpaceMark); at != text.npos; at = text.find(kSpaceMark, at))
          text.replace(at, kSpaceMark.size(), " ");
      }
      pieces_.push_back(std::move(text));
    }
    for (const TokenId id : byte_ids_)
      PENSTOCK_CHECK(id >= 0, "'", name,
                     "' has no pieces for single bytes, so text outside its "
                     "vocabulary would be lost; train one with --tokenizer bpe:N or unigram:N");
  }

  sentencepiece::SentencePieceProcessor processor_;
  std::string model_, spec_;
  std::vector<std::string> pieces_;
  std::vector<TokenId> byte_ids_;
};

std::shared_ptr<const Tokenizer> train(const std::string& kind, std::int64_t vocab_size,
                                       std::span<const std::string_view> texts) {
  Sentences sentences(texts);
  PENSTOCK_CHECK(!sentences.done(), "no text to train the tokenizer ", kind, ":", vocab_size,
                 " on");
  // One thread: sums of floats would depend on the number of threads. Ids 0 to 2 as Llama has them.
  const std::unordered_map<std::string, std::string> options = {
      {"model_type", kind},
      {"vocab_size", std::to_string(vocab_size)},
      {"normalization_rule_name", "identity"},
      {"add_dummy_prefix", "false"},
      {"remove_extra_whitespaces", "false"},
      {"allow_whitespace_only_pieces", "true"},
      {"byte_fallback", "true"},
      {"unk_id", "0"},
      {"bos_id", "1"},
      {"eos_id", "2"},
      {"pad_id", "-1"},
      {"num_threads", "1"},
      {"minloglevel", "4"},
  };
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(options, &sentences, &model);
  PENSTOCK_CHECK(status.ok(), "cannot train the tokenizer ", kind, ":", vocab_size,
                 " on this text (a vocabulary that is too large for a short text, or too small for "
                 "its characters; try another size, or bytes): ",
                 status.ToString());
  return std::make_shared<SentencePieceTokenizer>(std::move(model), "the trained tokenizer");
}

std::shared_ptr<const Tokenizer> load(const std::string& content, const std::string& name) {
  return std::make_shared<SentencePieceTokenizer>(content, name);
}

}  // namespace
}  // namespace penstock

extern "C" penstock::SentencePieceFunctions penstock_sentencepiece() {
  return {.train = penstock::train, .load = penstock::load};
}
