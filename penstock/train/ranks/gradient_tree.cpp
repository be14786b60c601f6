#include "penstock/train/ranks/gradient_tree.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <bit>

namespace penstock {
namespace {

std::size_t split(PartRange range) { return range.first + (std::bit_ceil(range.size()) >> 1); }

PartRange left(PartRange range) { return {range.first, split(range)}; }
PartRange right(PartRange range) { return {split(range), range.last}; }

/// The largest nodes below `node` that lie within `range`, ascending.
void add_nodes_within(PartRange node, PartRange range, std::vector<PartRange>& out) {
  if (node.last <= range.first || range.last <= node.first) return;
  if (range.first <= node.first && node.last <= range.last) {
    out.push_back(node);
    return;
  }
  add_nodes_within(left(node), range, out);
  add_nodes_within(right(node), range, out);
}

/// The sum of two neighbours. It is written into the memory of a node that is not borrowed, if
/// there is one. The bits do not depend on the choice of the node.
GradientTree::Node sum_of(GradientTree::Node first, GradientTree::Node second) {
  const PartRange both{first.range.first, second.range.last};
  if (first.borrowed) std::swap(first, second);
  for (std::size_t i = 0; i < first.gradients.size(); ++i) {
    at::Tensor& into = first.gradients[i];
    if (first.borrowed)
      into = into + second.gradients[i];
    else
      into.add_(second.gradients[i]);
  }
  first.range = both;
  first.borrowed = false;
  return first;
}

}  // namespace

PartRange parts_of_rank(std::size_t parts, int rank, int ranks) {
  const auto cut = [&](int r) {
    return parts * static_cast<std::size_t>(r) / static_cast<std::size_t>(ranks);
  };
  return {cut(rank), cut(rank + 1)};
}

std::vector<PartRange> GradientTree::nodes_within(std::size_t parts, PartRange range) {
  std::vector<PartRange> out;
  if (range.size() > 0) add_nodes_within({0, parts}, range, out);
  return out;
}

std::size_t GradientTree::copies(std::size_t parts, int ranks) {
  std::size_t out = 1;
  for (int rank = 0; rank < ranks; ++rank) {
    const PartRange range = parts_of_rank(parts, rank, ranks);
    for (std::size_t last = range.first + 1; last < range.last; ++last)
      out = std::max(out, nodes_within(parts, {range.first, last}).size() + 1);
  }
  return out;
}

void GradientTree::add(Node node) {
  const torch::NoGradGuard no_grad;
  auto at = std::ranges::lower_bound(nodes_, node.range.first, {},
                                     [](const Node& known) { return known.range.first; });
  at = nodes_.insert(at, std::move(node));
  const auto make_a_node = [&](const Node& first, const Node& second) {
    return first.range.last == second.range.first &&
           nodes_within(parts_, {first.range.first, second.range.last}).size() == 1;
  };
  while (true) {
    if (at + 1 != nodes_.end() && make_a_node(*at, *(at + 1))) {
      // *at is the first half; the node after it is the second half.
    } else if (at != nodes_.begin() && make_a_node(*(at - 1), *at)) {
      --at;
    } else {
      return;
    }
    *at = sum_of(std::move(*at), std::move(*(at + 1)));
    nodes_.erase(at + 1);
  }
}

void GradientTree::settle() {
  for (Node& node : nodes_) {
    if (!node.borrowed) continue;
    for (at::Tensor& gradient : node.gradients) gradient = gradient.clone();
    node.borrowed = false;
  }
}

}  // namespace penstock
