#include "penstock/train/gradient_tree.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "penstock/base/error.h"

namespace penstock {
namespace {

/// Elements that are exchanged at a time: 64 MiB of them in fp32.
constexpr std::int64_t kBucket = std::int64_t{1} << 24;

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

std::vector<PartRange> nodes_within(std::size_t parts, PartRange range) {
  std::vector<PartRange> out;
  if (range.size() > 0) add_nodes_within({0, parts}, range, out);
  return out;
}

/// The values of a node from those of the nodes below it that are known, in place of the first.
using Values = std::vector<std::pair<PartRange, at::Tensor>>;
at::Tensor summed(PartRange node, Values& values) {
  const auto known = std::ranges::find(values, node, &Values::value_type::first);
  if (known != values.end()) return known->second;
  const at::Tensor first = summed(left(node), values);
  return first.add_(summed(right(node), values));
}

/// Calls each(tensor's piece, place in the bucket) for what elements [begin, begin + flat.numel())
/// of the tensors, laid end to end, are.
void for_pieces(const std::vector<at::Tensor>& tensors, std::int64_t begin, const at::Tensor& flat,
                const std::function<void(const at::Tensor&, const at::Tensor&)>& each) {
  const std::int64_t end = begin + flat.numel();
  std::int64_t offset = 0;
  for (const at::Tensor& tensor : tensors) {
    const std::int64_t first = std::max(begin, offset),
                       last = std::min(end, offset + tensor.numel());
    if (first < last)
      each(tensor.view(-1).slice(0, first - offset, last - offset),
           flat.slice(0, first - begin, last - begin));
    offset += tensor.numel();
  }
}

}  // namespace

PartRange parts_of_rank(std::size_t parts, int rank, int ranks) {
  const auto cut = [&](int r) {
    return parts * static_cast<std::size_t>(r) / static_cast<std::size_t>(ranks);
  };
  return {cut(rank), cut(rank + 1)};
}

GradientTree::GradientTree(std::size_t parts, dist::ProcessGroup group)
    : parts_(parts),
      next_(parts_of_rank(parts, group.rank(), group.size()).first),
      group_(std::move(group)) {}

std::size_t GradientTree::copies(std::size_t parts, int ranks) {
  std::size_t out = 1;
  for (int rank = 0; rank < ranks; ++rank) {
    const PartRange range = parts_of_rank(parts, rank, ranks);
    for (std::size_t last = range.first + 1; last < range.last; ++last)
      out = std::max(out, nodes_within(parts, {range.first, last}).size() + 1);
  }
  return out;
}

SumTraffic GradientTree::traffic(std::size_t parts, int ranks, std::int64_t gradient_bytes) {
  std::int64_t nodes = 0;
  for (int rank = 0; rank < ranks; ++rank)
    nodes = std::max<std::int64_t>(
        nodes, std::ssize(nodes_within(parts, parts_of_rank(parts, rank, ranks))));
  const std::int64_t to_others = gradient_bytes / ranks * (ranks - 1);
  return {.nodes = nodes * to_others, .sums = to_others};
}

bool GradientTree::is_node(PartRange range) const {
  return nodes_within(parts_, range).size() == 1;
}

void GradientTree::add(Gradients gradients) {
  const torch::NoGradGuard no_grad;
  nodes_.push_back({.range = {next_, next_ + 1}, .gradients = std::move(gradients)});
  ++next_;
  while (nodes_.size() > 1) {
    Node& before = nodes_[nodes_.size() - 2];
    const PartRange both{before.range.first, nodes_.back().range.last};
    if (!is_node(both)) return;
    for (std::size_t i = 0; i < before.gradients.size(); ++i)
      before.gradients[i].add_(nodes_.back().gradients[i]);
    before.range = both;
    nodes_.pop_back();
  }
}

GradientTree::Gradients GradientTree::sum(const Gradients& like) && {
  const torch::NoGradGuard no_grad;
  Gradients out;
  if (!nodes_.empty()) {
    for (Node& node : nodes_)
      for (at::Tensor& gradient : node.gradients) gradient = gradient.contiguous();
    out = nodes_.front().gradients;
  } else {
    for (const at::Tensor& tensor : like) out.push_back(at::zeros_like(tensor));
  }
  if (group_.size() > 1) exchange(out);
  return out;
}

void GradientTree::exchange(Gradients& out) {
  const int ranks = group_.size();
  std::vector<std::vector<PartRange>> nodes;  // of each rank
  for (int rank = 0; rank < ranks; ++rank)
    nodes.push_back(nodes_within(parts_, parts_of_rank(parts_, rank, ranks)));
  std::int64_t total = 0;
  for (const at::Tensor& tensor : out) total += tensor.numel();
  const auto mine = static_cast<std::int64_t>(nodes_.size());
  for (std::int64_t begin = 0; begin < total; begin += kBucket) {
    const std::int64_t length = std::min(kBucket, total - begin);
    const std::int64_t slice = (length + ranks - 1) / ranks;  // of the bucket, one for each rank
    // [rank that sums it, own node, element]
    at::Tensor sent = at::zeros({ranks, mine, slice}, out.front().options());
    for (std::int64_t n = 0; n < mine; ++n) {
      const at::Tensor flat = at::zeros({ranks * slice}, sent.options());
      for_pieces(nodes_[static_cast<std::size_t>(n)].gradients, begin, flat.slice(0, 0, length),
                 [](const at::Tensor& piece, const at::Tensor& place) { place.copy_(piece); });
      sent.select(1, n).copy_(flat.view({ranks, slice}));
    }
    std::vector<std::int64_t> counts;  // rows of `slice` elements from each rank
    for (const auto& of_rank : nodes) counts.push_back(std::ssize(of_rank));
    const at::Tensor received =
        group_.all_to_all(sent.view({ranks * mine, slice}),
                          std::vector<std::int64_t>(static_cast<std::size_t>(ranks), mine), counts);
    Values values;
    for (const auto& of_rank : nodes)
      for (const PartRange& node : of_rank) values.emplace_back(node, received[std::ssize(values)]);
    const at::Tensor whole = group_.all_gather(summed({0, parts_}, values));
    for_pieces(out, begin, whole.view(-1).slice(0, 0, length),
               [](const at::Tensor& piece, const at::Tensor& place) { piece.copy_(place); });
  }
}

}  // namespace penstock
