// A tokenizer's vocabulary, independent of file formats, so that the reader of one format can pass
// it to the writer of another. How a file spells a piece is decided by the format's code.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "penstock/data/text/added_tokens.h"
#include "penstock/data/token_id.h"

namespace penstock {

/// Pieces with their ids, and how text becomes pieces.
struct Vocabulary {
  enum class Kind {
    /// One id per byte, and control pieces. Each piece is one byte in kByteBpe's spelling; some
    /// bytes may have no piece.
    kBytes,
    /// Byte-pair encoding over bytes, by ranked merges, after cutting by `pre` or `patterns`.
    kByteBpe,
    /// Byte-pair encoding over characters, by the pieces' scores, the best first; characters
    /// without a piece become bytes.
    kSentencePieceBpe,
    /// The segmentation with the largest sum of scores.
    kSentencePieceUnigram,
  };
  enum class PieceType { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };
  struct Piece {
    /// As the kind spells it: byte pieces through GPT-2's printable stand-ins (printable_bytes()),
    /// SentencePiece pieces with U+2581 for a space and kByte pieces as "<0x0A>". Control and
    /// user-defined pieces of the byte kinds are spelled literally.
    std::string text;
    float score = 0;
    PieceType type = PieceType::kNormal;

    bool operator==(const Piece&) const = default;
  };

  Kind kind = Kind::kBytes;
  /// [id]
  std::vector<Piece> pieces;
  /// Pairs of pieces that merge, in order of rank. For kByteBpe only.
  std::vector<std::pair<std::string, std::string>> merges;
  /// Name of the rule that cuts text before merging, as GGUF files name it (data/text/
  /// pre_tokenizers.h); empty if the rule has no name and `patterns` give it. For kByteBpe only.
  std::string pre;
  /// The rule as PCRE2 patterns. Each pattern cuts the parts that the earlier patterns left. Merges
  /// do not cross the borders of its matches.
  std::vector<std::string> patterns;
  /// A whole word that is a piece becomes that piece, without merging.
  bool ignore_merges = false;
  /// Text is first normalised to Unicode's composed form (NFC).
  bool compose = false;
  TokenId bos = -1, eos = -1, unknown = -1, padding = -1;
  /// A document begins with `bos`. encode() does not add it; the code that runs the model does.
  bool add_bos = false;
  /// A space is put before the text. For SentencePiece kinds only.
  bool add_space_prefix = true;
  /// Whether text after a user-defined piece counts as the beginning of a text. If so, it gets the
  /// space of `add_space_prefix`, and the piece is found literally (Hugging Face's tokenizers and
  /// llama.cpp). If not, only the whole text gets the space, and a U+2581 in the piece is a space
  /// (SentencePiece's library).
  bool begins_anew = false;
  /// How to find the control and user-defined pieces that are not found literally.
  std::vector<AddedToken> added;

  bool operator==(const Vocabulary&) const = default;
};

/// How to find the piece in text: its entry of `vocabulary.added`, or else a literal match.
AddedToken added_token(const Vocabulary& vocabulary, TokenId id);

/// The reason why programs that assume `begins_anew` tokenize differently from the vocabulary; ""
/// if they do not.
std::string difference_after_pieces(const Vocabulary& vocabulary);

}  // namespace penstock
