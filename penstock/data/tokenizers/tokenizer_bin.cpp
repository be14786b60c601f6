#include "penstock/data/tokenizers/tokenizer_bin.h"

#include <cmath>
#include <cstring>

#include "penstock/base/error.h"
#include "penstock/data/text/byte_pieces.h"
#include "penstock/data/tokenizers/merge_scores.h"
#include "penstock/data/tokenizers/score_tokenizer.h"
#include "penstock/data/tokenizers/sentencepiece_tokenizer.h"
#include "penstock/data/tokenizers/tokenizer_files.h"

namespace penstock {
namespace {

constexpr std::int64_t kFirstByte = 3;

/// Reads numbers and text from the front of the content. The file is little-endian, and so are all
/// machines that Penstock builds for.
class BinReader {
 public:
  BinReader(std::string_view content, const std::string& name) : rest_(content), name_(name) {}
  bool done() const { return rest_.empty(); }
  template <class Number>
  Number number() {
    Number out;
    std::memcpy(&out, text(sizeof(Number)).data(), sizeof(Number));
    return out;
  }
  std::string_view text(std::size_t length) {
    PENSTOCK_CHECK(length <= rest_.size(), "'", name_, "' is cut short");
    const auto out = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return out;
  }

 private:
  std::string_view rest_;
  const std::string& name_;
};

Vocabulary::Piece read_bin_piece(BinReader& reader, std::size_t id, const std::string& name) {
  const auto score = reader.number<float>();
  const auto length = reader.number<std::int32_t>();
  PENSTOCK_CHECK(length >= 0 && length <= static_cast<std::int32_t>(kLongestScoredPiece), "'", name,
                 "' is not a tokenizer.bin of llama2.c: piece ", id, " has ", length, " bytes");
  PENSTOCK_CHECK(std::isfinite(score), "'", name, "': the score of piece ", id, " is not a number");
  return {replaced(reader.text(static_cast<std::size_t>(length)), " ", kSpaceMark), score};
}

}  // namespace

std::shared_ptr<const Tokenizer> read_tokenizer_bin(const std::string& content,
                                                    const std::string& name) {
  BinReader reader(content, name);
  const auto longest = reader.number<std::int32_t>();
  PENSTOCK_CHECK(longest > 0 && longest <= static_cast<std::int32_t>(kLongestScoredPiece), "'",
                 name, "' is not a tokenizer.bin of llama2.c: its longest piece has ", longest,
                 " bytes");
  Vocabulary vocabulary{.kind = Vocabulary::Kind::kSentencePieceBpe};
  auto& pieces = vocabulary.pieces;
  while (!reader.done()) {
    PENSTOCK_CHECK(std::ssize(pieces) < kMaxPieces, "'", name, "' has more than ", kMaxPieces,
                   " pieces");
    pieces.push_back(read_bin_piece(reader, pieces.size(), name));
  }
  PENSTOCK_CHECK(std::ssize(pieces) >= kFirstByte + 256, "'", name, "' has ", pieces.size(),
                 " pieces; unknown, begin, end and the bytes are ", kFirstByte + 256);
  // The writer puts newlines around "<s>" and "</s>". No text shows the two pieces.
  pieces[0] = {"<unk>", pieces[0].score, Vocabulary::PieceType::kUnknown};
  pieces[1] = {"<s>", pieces[1].score, Vocabulary::PieceType::kControl};
  pieces[2] = {"</s>", pieces[2].score, Vocabulary::PieceType::kControl};
  for (std::size_t byte = 0; byte < 256; ++byte) {
    auto& piece = pieces[byte + kFirstByte];
    PENSTOCK_CHECK(piece.text == byte_piece(byte), "'", name, "': piece ", byte + kFirstByte,
                   " is '", piece.text.substr(0, 60), "', not ", byte_piece(byte));
    piece.type = Vocabulary::PieceType::kByte;
  }
  // Pieces without text never occur.
  for (auto& piece : pieces)
    if (piece.text.empty()) piece.type = Vocabulary::PieceType::kUnused;
  vocabulary.unknown = 0;
  vocabulary.bos = 1;
  vocabulary.eos = 2;
  vocabulary.add_bos = true;
  return make_score_tokenizer(vocabulary, {.spec = kTokenizerBinFile,
                                           .origin = name,
                                           .files = {{kTokenizerBinFile, content}},
                                           .mark_is_text = true});
}

}  // namespace penstock
