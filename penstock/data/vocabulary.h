// What a tokenizer knows, said in a way that belongs to no file format, so that any format's writer
// can take it from any format's reader. Which text belongs to a piece is here; how a file spells it
// is the formats' business.
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
  /// Name of the rule that cuts text before merging, as GGUF files name it (data/text/
  /// pre_tokenizers.h); empty where the rule has no name and `patterns` say it. kByteBpe alone.
  std::string pre;
  /// The rule as PCRE2 patterns, each of which cuts what those before it left: its matches, and
  /// what lies between them, are merged apart.
  std::vector<std::string> patterns;
  /// A whole word that is a piece is taken as it is, whatever the merges say.
  bool ignore_merges = false;
  /// Text is brought into Unicode's composed form (NFC) first.
  bool compose = false;
  TokenId bos = -1, eos = -1, unknown = -1, padding = -1;
  /// A document begins with `bos`. encode() does not add it; who runs the model does.
  bool add_bos = false;
  /// A space is put before the text. SentencePiece kinds alone.
  bool add_space_prefix = true;
  /// Text after a user-defined piece begins anew, with a space before it where `add_space_prefix`
  /// holds, and the piece is sought in text as it stands. So in Hugging Face's tokenizers and
  /// llama.cpp; in SentencePiece's own, text begins once and a U+2581 in the piece is a space.
  bool begins_anew = false;
  /// Control and user-defined pieces that are not simply sought as they stand: how they are.
  std::vector<AddedToken> added;

  bool operator==(const Vocabulary&) const = default;
};

/// The piece as it is sought in text: as it stands, unless `vocabulary.added` knows more.
AddedToken added_token(const Vocabulary& vocabulary, TokenId id);

/// Why programs that begin text anew after user-defined pieces cut it otherwise than the vocabulary
/// says; "" where they do not.
std::string difference_after_pieces(const Vocabulary& vocabulary);

}  // namespace penstock
