#include "penstock/data/tokenizers/merge_scores.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace penstock {
namespace {

bool is_merged(const Vocabulary::Piece& piece) {
  return piece.type == Vocabulary::PieceType::kNormal;
}

std::unordered_map<std::string_view, std::size_t> merged_pieces(const Vocabulary& vocabulary) {
  std::unordered_map<std::string_view, std::size_t> out;
  for (std::size_t id = 0; id < vocabulary.pieces.size(); ++id)
    if (is_merged(vocabulary.pieces[id])) out.try_emplace(vocabulary.pieces[id].text, id);
  return out;
}

}  // namespace

bool set_scores_of_merges(Vocabulary& vocabulary) {
  const auto pieces = merged_pieces(vocabulary);
  std::set<std::pair<std::string_view, std::string_view>> merges;
  std::unordered_set<std::size_t> scored;
  std::size_t last = vocabulary.pieces.size();
  for (const auto& [left, right] : vocabulary.merges) {
    const auto result = pieces.find(left + right);
    if (result == pieces.end() || !merges.emplace(left, right).second) return false;
    if (result->second == last) continue;
    if (!scored.insert(result->second).second) return false;  // its merges are not consecutive
    last = result->second;
    vocabulary.pieces[last].score = -static_cast<float>(scored.size());
  }
  std::size_t cuts = 0;
  const auto is_symbol = [&](std::string_view part) {
    return character_bytes(part) == part.size() || pieces.contains(part);
  };
  for (const auto& [text, id] : pieces) {
    if (text.size() > kLongestScoredPiece) return false;
    bool known = true;
    for_each_cut(text, [&](std::string_view left, std::string_view right) {
      if (!is_symbol(left) || !is_symbol(right)) return;
      ++cuts;
      known = known && merges.contains({left, right});
    });
    if (!known) return false;
  }
  return cuts == merges.size();
}

std::vector<std::pair<std::string, std::string>> merges_of_scores(const Vocabulary& vocabulary) {
  const auto pieces = merged_pieces(vocabulary);
  std::vector<std::size_t> order(vocabulary.pieces.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t id) { return vocabulary.pieces[id].score; });
  std::vector<std::pair<std::string, std::string>> merges;
  for (const std::size_t id : order) {
    const auto& piece = vocabulary.pieces[id];
    if (!is_merged(piece) || piece.text.size() > kLongestScoredPiece) continue;
    const std::size_t first = merges.size();
    for_each_cut(piece.text, [&](std::string_view left, std::string_view right) {
      if (pieces.contains(left) && pieces.contains(right)) merges.emplace_back(left, right);
    });
    std::reverse(merges.begin() + static_cast<std::ptrdiff_t>(first), merges.end());
  }
  return merges;
}

}  // namespace penstock
