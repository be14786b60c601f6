#include "penstock/data/vocabulary.h"

#include <algorithm>

#include "penstock/base/error.h"

namespace penstock {

AddedToken added_token(const Vocabulary& vocabulary, TokenId id) {
  const auto known = std::ranges::find(vocabulary.added, id, &AddedToken::id);
  if (known != vocabulary.added.end()) return *known;
  const auto& piece = vocabulary.pieces[static_cast<std::size_t>(id)];
  return {.id = id,
          .content = piece.text,
          .control = piece.type != Vocabulary::PieceType::kUserDefined};
}

std::string difference_after_pieces(const Vocabulary& vocabulary) {
  if (vocabulary.begins_anew || !vocabulary.add_space_prefix) return {};
  if (vocabulary.kind != Vocabulary::Kind::kSentencePieceBpe &&
      vocabulary.kind != Vocabulary::Kind::kSentencePieceUnigram)
    return {};
  const auto piece = std::ranges::find(vocabulary.pieces, Vocabulary::PieceType::kUserDefined,
                                       &Vocabulary::Piece::type);
  if (piece == vocabulary.pieces.end()) return {};
  return concat("text after a user-defined piece ('", piece->text.substr(0, 60),
                "') goes on here and begins anew, with a space, there");
}

}  // namespace penstock
