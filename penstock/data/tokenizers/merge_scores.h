// Converts between merges by rank, as in a tokenizer.json, and merges by the pieces' scores, as in
// SentencePiece. Both give the same encoding if every pair of pieces that forms a piece is a merge
// and the ranks of each piece's merges are consecutive.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/data/text/unicode.h"
#include "penstock/data/vocabulary.h"

namespace penstock {

/// The most bytes of a piece, since each piece is cut between all its characters.
inline constexpr std::size_t kLongestScoredPiece = 512;

/// Calls visit(left, right) for each cut of the piece between two characters.
template <class Visitor>
void for_each_cut(std::string_view piece, Visitor visit) {
  for (std::size_t at = 0; at < piece.size();) {
    at += character_bytes(piece.substr(at));
    if (at < piece.size()) visit(piece.substr(0, at), piece.substr(at));
  }
}

/// Sets the scores of the pieces, from 0 downwards, from the vocabulary's merges. Keeps the merges.
/// Returns false if no scores give these merges.
bool set_scores_of_merges(Vocabulary& vocabulary);

/// All pairs of pieces that form a piece, as merges: sorted by the score of the result, the best
/// first, and for the same result by the length of the left part, the longest first.
std::vector<std::pair<std::string, std::string>> merges_of_scores(const Vocabulary& vocabulary);

}  // namespace penstock
