#include "penstock/train/sharing_bytes.h"

#include <algorithm>

#include "penstock/train/gradient_tree.h"

namespace penstock {

SumTraffic sum_traffic(std::size_t parts, int ranks, int zero, std::int64_t gradient_bytes) {
  std::size_t nodes = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const PartRange range = parts_of_rank(parts, rank, ranks);
    nodes =
        std::max(nodes, zero >= 2 ? range.size() : GradientTree::nodes_within(parts, range).size());
  }
  const std::int64_t to_others = gradient_bytes / ranks * (ranks - 1);
  return {.nodes = static_cast<std::int64_t>(nodes) * to_others, .sums = to_others};
}

}  // namespace penstock
