// What a tokenizer knows, said in a way that belongs to no file format, so that any format's writer
// can take it from any format's reader. Which text belongs to a piece is here; how a file spells it
// is the formats' business.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/data/tokenizer.h"

namespace penstock {

/// Pieces with their ids, and how text becomes pieces.
struct Vocabulary {
  enum class Kind {
    /// One id a byte, each piece being one byte in kByteBpe's spelling (not every byte need have
    /// one), and control pieces.
    kBytes,
    /// Byte-pair encoding over bytes, by ranked merges, after cutting by `pre` or `pattern`.
    kByteBpe,
    /// Merging of characters by the pieces' scores, the best first; what is left is bytes.
    kSentencePieceBpe,
    /// The segmentation of the largest sum of scores.
    kSentencePieceUnigram,
  };
  enum class PieceType { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };
  struct Piece {
    /// As the kind spells it: byte pieces through GPT-2's printable stand-ins (printable_bytes()),
    /// SentencePiece pieces with U+2581 for a space and kByte pieces as "<0x0A>". Control and
    /// user-defined pieces of the byte kinds stand as they are.
    std::string text;
    float score = 0;
    PieceType type = PieceType::kNormal;

    bool operator==(const Piece&) const = default;
  };

  Kind kind = Kind::kBytes;
  /// [id]
  std::vector<Piece> pieces;
  /// Pairs of pieces that merge, the first the earliest; kByteBpe alone.
  std::vector<std::pair<std::string, std::string>> merges;
  /// Name of the rule that cuts text before merging, as GGUF files name it: "gpt-2", "qwen2",
  /// "llama-bpe"; empty where the rule has no name and `pattern` says it. kByteBpe alone.
  std::string pre;
  /// The rule as a PCRE2 pattern whose matches, and what lies between them, are merged apart.
  std::string pattern;
  /// A whole word that is a piece is taken as it is, whatever the merges say.
  bool ignore_merges = false;
  /// Text is brought into Unicode's composed form (NFC) first.
  bool compose = false;
  TokenId bos = -1, eos = -1, unknown = -1, padding = -1;
  /// A document begins with `bos`. encode() does not add it; who runs the model does.
  bool add_bos = false;
  /// A space is put before the text. SentencePiece kinds alone.
  bool add_space_prefix = true;

  bool operator==(const Vocabulary&) const = default;
};

/// Makes the tokenizer that the vocabulary describes: its ids are those of the tokenizer that gave
/// it, but for what no vocabulary tells: U+2581 in text is the space that it stands for in pieces
/// where `add_space_prefix` holds, and text otherwise. Pieces of the user are found in text before
/// anything else. kSentencePieceUnigram takes SentencePiece's library. Throws Error where the
/// description contradicts itself.
std::shared_ptr<const Tokenizer> make_tokenizer(const Vocabulary& vocabulary);

}  // namespace penstock
