#include "penstock/data/tokenizers/sentencepiece_model.h"

#include <algorithm>
#include <cstring>

#include "penstock/base/error.h"

namespace penstock {
namespace {

/// Writes a protocol-buffer message.
class MessageWriter {
 public:
  void number(int field, std::int64_t value) {
    key(field, 0);
    varint(static_cast<std::uint64_t>(value));  // negative values take all 64 bits
  }
  void bytes(int field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    out_ += value;
  }
  void real(int field, float value) {
    key(field, 5);
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    out_.append(raw, sizeof value);
  }
  const std::string& text() const { return out_; }

 private:
  void key(int field, int type) { varint(static_cast<std::uint64_t>(field << 3 | type)); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_ += static_cast<char>(value | 0x80);
    out_ += static_cast<char>(value);
  }
  std::string out_;
};

int proto_type(Vocabulary::PieceType type) {
  switch (type) {
    case Vocabulary::PieceType::kNormal:
      return 1;
    case Vocabulary::PieceType::kUnknown:
      return 2;
    case Vocabulary::PieceType::kControl:
      return 3;
    case Vocabulary::PieceType::kUserDefined:
      return 4;
    case Vocabulary::PieceType::kUnused:
      return 5;
    case Vocabulary::PieceType::kByte:
      return 6;
  }
  return 1;
}

std::string trainer_fields(const Vocabulary& vocabulary) {
  MessageWriter out;
  const bool bytes = std::ranges::any_of(vocabulary.pieces, [](const auto& piece) {
    return piece.type == Vocabulary::PieceType::kByte;
  });
  out.number(3, vocabulary.kind == Vocabulary::Kind::kSentencePieceUnigram ? 1 : 2);
  out.number(4, std::ssize(vocabulary.pieces));
  out.number(35, bytes);
  // Ids and names of unknown, begin, end and padding.
  const TokenId ids[] = {vocabulary.unknown, vocabulary.bos, vocabulary.eos, vocabulary.padding};
  for (int i = 0; i < 4; ++i) out.number(40 + i, ids[i]);
  for (int i = 0; i < 4; ++i)
    if (ids[i] >= 0) out.bytes(45 + i, vocabulary.pieces[static_cast<std::size_t>(ids[i])].text);
  return out.text();
}

}  // namespace

std::string sentencepiece_model(const Vocabulary& vocabulary) {
  PENSTOCK_ASSERT(vocabulary.kind == Vocabulary::Kind::kSentencePieceBpe ||
                  vocabulary.kind == Vocabulary::Kind::kSentencePieceUnigram);
  MessageWriter out;
  for (const auto& piece : vocabulary.pieces) {
    MessageWriter one;
    one.bytes(1, piece.text);
    one.real(2, piece.score);
    if (piece.type != Vocabulary::PieceType::kNormal) one.number(3, proto_type(piece.type));
    out.bytes(1, one.text());
  }
  out.bytes(2, trainer_fields(vocabulary));
  MessageWriter normalizer;
  normalizer.bytes(1, "identity");
  normalizer.number(3, vocabulary.add_space_prefix);
  normalizer.number(4, 0);  // extra white space stays
  normalizer.number(5, 1);  // U+2581 for a space
  out.bytes(3, normalizer.text());
  return out.text();
}

}  // namespace penstock
