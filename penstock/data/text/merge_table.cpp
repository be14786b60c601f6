#include "penstock/data/text/merge_table.h"

#include <queue>

namespace penstock {
namespace {

/// A pair that may merge. It is void once either symbol was merged into another.
struct MergeCandidate {
  double order;
  std::size_t place;  // index of the left symbol
  TokenId left, right, result;

  bool operator<(const MergeCandidate& other) const {  // the top of a heap is its greatest
    return order != other.order ? order > other.order : place > other.place;
  }
};

}  // namespace

void MergeTable::apply(std::vector<TokenId>& symbols) const {
  // Words are short. For a few symbols a linear search is faster than a heap.
  constexpr std::size_t kFew = 20;
  if (symbols.size() <= kFew)
    apply_to_few(symbols);
  else
    apply_to_many(symbols);
}

void MergeTable::apply_to_few(std::vector<TokenId>& symbols) const {
  std::vector<const Merge*> pairs;  // [index of the left symbol]
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i)
    pairs.push_back(find(symbols[i], symbols[i + 1]));
  for (;;) {
    std::size_t best = pairs.size();
    for (std::size_t i = 0; i < pairs.size(); ++i)
      if (pairs[i] && (best == pairs.size() || pairs[i]->order < pairs[best]->order)) best = i;
    if (best == pairs.size()) return;
    symbols[best] = pairs[best]->result;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    pairs.erase(pairs.begin() + static_cast<std::ptrdiff_t>(best));
    if (best > 0) pairs[best - 1] = find(symbols[best - 1], symbols[best]);
    if (best < pairs.size()) pairs[best] = find(symbols[best], symbols[best + 1]);
  }
}

void MergeTable::apply_to_many(std::vector<TokenId>& symbols) const {
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  constexpr TokenId kGone = -2;
  std::vector<std::size_t> next(symbols.size()), previous(symbols.size());
  std::priority_queue<MergeCandidate> candidates;
  const auto consider = [&](std::size_t left, std::size_t right) {
    if (const Merge* merge = find(symbols[left], symbols[right]))
      candidates.push({merge->order, left, symbols[left], symbols[right], merge->result});
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    previous[i] = i == 0 ? kNone : i - 1;
    next[i] = i + 1 == symbols.size() ? kNone : i + 1;
    if (i > 0) consider(i - 1, i);
  }
  while (!candidates.empty()) {
    const MergeCandidate top = candidates.top();
    candidates.pop();
    const std::size_t right = next[top.place];
    if (symbols[top.place] != top.left || right == kNone || symbols[right] != top.right) continue;
    symbols[top.place] = top.result;
    symbols[right] = kGone;
    next[top.place] = next[right];
    if (next[right] != kNone) previous[next[right]] = top.place;
    if (previous[top.place] != kNone) consider(previous[top.place], top.place);
    if (next[top.place] != kNone) consider(top.place, next[top.place]);
  }
  std::erase(symbols, kGone);
}

}  // namespace penstock
