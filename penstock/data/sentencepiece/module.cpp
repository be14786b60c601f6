// The SentencePiece module: the only file that uses libsentencepiece. sentencepiece_tokenizer.cpp
// loads it. Models that Penstock trains are lossless: U+2581, which stands for a space inside the
// library, is encoded as its three bytes. Training and encoding go line by line, so no piece
// crosses the end of a line and long documents cost linear time. Other models get the text as it
// is.
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_map>

#include "penstock/base/error.h"
#include "penstock/base/lines.h"
#include "penstock/data/text/added_tokens.h"
#include "penstock/data/text/byte_pieces.h"
#include "penstock/data/text/unicode.h"
#include "penstock/data/tokenizers/sentencepiece_functions.h"
#include "penstock/data/tokenizers/sentencepiece_tokenizer.h"
#include "penstock/data/tokenizers/special_pieces.h"
#include "penstock/data/tokenizers/tokenizer_files.h"
#include "penstock/data/vocabulary.h"

namespace penstock {
namespace {

constexpr std::size_t kTrainingBytes = 10'000'000;
constexpr std::size_t kLongestSentence = 4096;

/// A sample of the texts for training: whole lines, cut at tabs, evenly spread over the texts.
class Sentences : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(std::span<const std::string_view> texts) {
    std::size_t total = 0;
    for (const auto text : texts) total += text.size();
    const std::size_t every = total / kTrainingBytes + 1;
    std::size_t line_number = 0;
    for (const auto text : texts)
      for_each_line(text, [&](std::string_view line, std::size_t) {
        if (line_number++ % every == 0) add(line);
      });
  }
  bool done() const override { return next_ == sentences_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return sentences_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  void add(std::string_view line) {
    // The library reserves these characters, and would skip the whole line.
    if (line.find(kSpaceMark) != line.npos || line.find('\0') != line.npos) return;
    for (std::size_t begin = 0; begin < line.size();) {
      const std::size_t tab = std::min(line.find('\t', begin), line.size());
      for (std::size_t at = begin; at < tab;) {
        std::size_t end = std::min(tab, at + kLongestSentence);
        // Moves back to the start of a character.
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

/// The fields of one protocol-buffer message that are numbers or bytes. It reads facts of a model
/// file that the library does not provide. Source: protobuf.dev, "Encoding".
class Message {
 public:
  explicit Message(std::string_view bytes) : Message(bytes, [](int, std::string_view) {}) {}

  /// Calls visit with each message of the field `wanted`.
  template <class Visitor>
  static void for_each(std::string_view bytes, int wanted, Visitor visit) {
    Message(bytes, [&](int field, std::string_view inner) {
      if (field == wanted) visit(Message(inner));
    });
  }

  std::uint64_t number(int field, std::uint64_t otherwise) const {
    const auto it = numbers_.find(field);
    return it == numbers_.end() ? otherwise : it->second;
  }
  bool has_bytes(int field) const {
    const auto it = messages_.find(field);
    return it != messages_.end() && !it->second.empty();
  }
  Message message(int field) const {
    const auto it = messages_.find(field);
    return Message(it == messages_.end() ? std::string_view() : it->second);
  }

 private:
  /// Calls visit with each field of bytes, in the order of the file.
  template <class Visitor>
  Message(std::string_view bytes, Visitor visit) {
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
          visit(field, messages_[field]);
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

/// The library's error message; "" for success. The library returns a status, but its trie of the
/// pieces throws.
template <class Call>
std::string error_of(Call call) {
  try {
    const auto status = call();
    return status.ok() ? std::string() : status.ToString();
  } catch (const std::exception& error) {
    return error.what();
  }
}

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(std::string model, const std::string& name,
                         const std::map<std::string, std::string>& other_files)
      : model_(std::move(model)), other_files_(other_files) {
    auto error = error_of([&] { return processor_.LoadFromSerializedProto(model_); });
    // A failed check of the library's parser: "Internal: ./src/sentencepiece_processor.cc(232)
    // [ParseFromArray(...)]".
    if (error.find("ParseFromArray") != error.npos)
      error = "it is cut short, damaged or of another kind";
    PENSTOCK_CHECK(error.empty(), "'", name, "' is not a usable SentencePiece model: ", error);
    PENSTOCK_CHECK(processor_.GetPieceSize() <= kMaxPieces, "'", name, "' has more than ",
                   kMaxPieces, " pieces");
    // Field numbers of sentencepiece_model.proto.
    const Message proto(model_), trainer = proto.message(2), normalizer = proto.message(3);
    const std::uint64_t type = trainer.number(3, 1);
    prefixes_ = normalizer.number(3, 1) != 0;
    normalises_ = normalizer.number(4, 1) != 0 || normalizer.number(5, 1) == 0 ||
                  normalizer.has_bytes(2) || trainer.number(24, 0) != 0 || type > 2;
    lossless_ = !prefixes_ && !normalises_;
    spec_ = lossless_ ? concat(type == 2 ? "bpe:" : "unigram:", vocab_size()) : kSentencePieceFile;
    describe(type == 2);
    read_pieces(name);
    if (const auto it = other_files_.find(kTokenizerConfigFile); it != other_files_.end())
      read_config(it->second);
  }

  std::string spec() const override { return spec_; }
  std::int64_t vocab_size() const override { return processor_.GetPieceSize(); }
  TokenId end_of_document() const override { return described_.eos; }

  void encode(std::string_view text, std::vector<TokenId>& ids) const override {
    if (!lossless_) return encode_plain(text, ids);
    for_each_line(text, [&](std::string_view line, std::size_t) {
      for (;;) {
        const std::size_t mark = line.find(kSpaceMark);
        encode_plain(line.substr(0, mark), ids);
        if (mark == line.npos) return;
        for (const char c : kSpaceMark) ids.push_back(byte_ids_[static_cast<unsigned char>(c)]);
        line.remove_prefix(mark + kSpaceMark.size());
      }
    });
  }
  void encode_with_controls(std::string_view text, std::vector<TokenId>& ids) const override {
    for (const auto& part : controls_.cut(text))
      part.id >= 0 ? ids.push_back(part.id) : encode(part.text, ids);
  }
  bool drops_first_space() const override { return prefixes_; }

  std::optional<Vocabulary> vocabulary() const override {
    if (normalises_) return std::nullopt;
    return described_;
  }

  void decode(TokenId id, std::string& text) const override {
    check_id(id);
    text += pieces_[static_cast<std::size_t>(id)];
  }

  std::map<std::string, std::string> files() const override {
    auto files = other_files_;
    files[kSentencePieceFile] = model_;
    return files;
  }

 private:
  void encode_plain(std::string_view text, std::vector<TokenId>& ids) const {
    if (text.empty()) return;
    std::vector<int> pieces;
    const auto error = error_of([&] { return processor_.Encode(std::string(text), &pieces); });
    PENSTOCK_CHECK(error.empty(), "SentencePiece cannot encode the text: ", error);
    ids.insert(ids.end(), pieces.begin(), pieces.end());
  }

  /// Fills in the description without its pieces.
  void describe(bool bpe) {
    using Kind = Vocabulary::Kind;
    described_ = {.kind = bpe ? Kind::kSentencePieceBpe : Kind::kSentencePieceUnigram,
                  .bos = processor_.bos_id(),
                  .eos = processor_.eos_id(),
                  .unknown = processor_.unk_id(),
                  .padding = processor_.pad_id(),
                  .add_bos = !lossless_ && processor_.bos_id() >= 0,
                  .add_space_prefix = prefixes_};
  }

  /// Reads begin and end from a tokenizer_config.json beside the model.
  void read_config(const std::string& content) {
    const auto json = nlohmann::json::parse(content, nullptr, false);
    const Vocabulary model = described_;
    set_special_pieces(
        json, {},
        [&](const std::string& text) {
          const int id = processor_.PieceToId(text);
          return processor_.IdToPiece(id) == text ? id : -1;
        },
        described_);
    for (auto id : {&Vocabulary::bos, &Vocabulary::eos, &Vocabulary::padding})
      if (described_.*id < 0) described_.*id = model.*id;
  }

  Vocabulary::PieceType type_of(int id) const {
    using Type = Vocabulary::PieceType;
    if (processor_.IsByte(id)) return Type::kByte;
    if (processor_.IsControl(id)) return Type::kControl;
    if (processor_.IsUnknown(id)) return Type::kUnknown;
    if (processor_.IsUnused(id)) return Type::kUnused;
    return user_defined_.contains(id) ? Type::kUserDefined : Type::kNormal;
  }

  void read_pieces(const std::string& name) {
    byte_ids_.assign(256, -1);
    for_each_user_defined([&](int id) { user_defined_.insert(id); });
    for (int id = 0; id < processor_.GetPieceSize(); ++id) {
      std::string text;
      const std::string& piece = processor_.IdToPiece(id);
      const auto type = type_of(id);
      described_.pieces.push_back({piece, processor_.GetScore(id), type});
      if (type == Vocabulary::PieceType::kByte) {
        const int byte = piece_byte(piece);
        PENSTOCK_CHECK(byte >= 0, "'", name, "': odd byte piece '", piece, "'");
        byte_ids_[static_cast<std::size_t>(byte)] = id;
        text.push_back(static_cast<char>(byte));
      } else if (type == Vocabulary::PieceType::kControl) {
        if (!piece.empty() && piece.size() <= AddedTokens::kLongest)
          controls_.add({.id = id, .content = piece, .control = true});
      } else if (type != Vocabulary::PieceType::kUnknown) {
        text = replaced(piece, kSpaceMark, " ");
      }
      pieces_.push_back(std::move(text));
    }
    const bool all_bytes = std::ranges::find(byte_ids_, -1) == byte_ids_.end();
    PENSTOCK_CHECK(all_bytes || !lossless_, "'", name,
                   "' has no pieces for single bytes, so text outside its "
                   "vocabulary would be lost; train one, bpe:N or unigram:N");
  }

  /// Calls visit with the id of each user-defined piece. The library does not distinguish them.
  template <class Visitor>
  void for_each_user_defined(Visitor visit) const {
    int id = 0;
    Message::for_each(model_, 1, [&](const Message& piece) {
      if (piece.number(3, 1) == 4) visit(id);
      ++id;
    });
  }

  sentencepiece::SentencePieceProcessor processor_;
  std::string model_, spec_;
  std::map<std::string, std::string> other_files_;
  bool prefixes_ = false, normalises_ = false, lossless_ = true;
  Vocabulary described_;
  std::set<int> user_defined_;
  AddedTokens controls_;
  std::vector<std::string> pieces_;
  std::vector<TokenId> byte_ids_;
};

std::shared_ptr<const Tokenizer> train(const std::string& kind, std::int64_t vocab_size,
                                       std::span<const std::string_view> texts) {
  Sentences sentences(texts);
  PENSTOCK_CHECK(!sentences.done(), "no text to train the tokenizer ", kind, ":", vocab_size,
                 " on");
  // One thread, since sums of floats depend on the number of threads. Ids 0 to 2 are Llama's.
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
  return std::make_shared<SentencePieceTokenizer>(std::move(model), "the trained tokenizer",
                                                  std::map<std::string, std::string>{});
}

std::shared_ptr<const Tokenizer> load(const std::string& content, const std::string& name,
                                      const std::map<std::string, std::string>& other_files) {
  return std::make_shared<SentencePieceTokenizer>(content, name, other_files);
}

}  // namespace
}  // namespace penstock

extern "C" penstock::SentencePieceFunctions penstock_sentencepiece() {
  return {.train = penstock::train, .load = penstock::load};
}
