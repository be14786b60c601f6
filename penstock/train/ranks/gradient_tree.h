// The sum of a step's gradients over its parts in a fixed order, whichever process computes a part.
// Not for gradients that are summed in turn, in place; and it sends nothing (unit_exchange.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace penstock {

/// Parts [first, last) of a step.
struct PartRange {
  std::size_t first = 0, last = 0;
  std::size_t size() const { return last - first; }
  friend bool operator==(const PartRange&, const PartRange&) = default;
};

/// The parts that a rank computes: consecutive ones, as many as the others' or one more.
PartRange parts_of_rank(std::size_t parts, int rank, int ranks);

/// A binary tree over the parts' indices: a range of more than one is the sum of its first
/// 2^j parts (the most that leave some) and the rest.
///   sum [a, b) = sum [a, m) + sum [m, b),  m − a = the largest power of two below b − a
/// So the bits depend on the number of parts alone, not on the number of ranks. A rank holds the
/// largest ranges that its parts make whole: about log2(parts) copies of the gradients at most.
class GradientTree {
 public:
  using Gradients = std::vector<at::Tensor>;
  struct Node {
    PartRange range;
    Gradients gradients;
    /// They are views of a memory that is to be freed soon: a sum goes elsewhere.
    bool borrowed = false;
  };
  explicit GradientTree(std::size_t parts) : parts_(parts) {}

  /// A node of the tree, which it may change, and adds to the other half of the node above as soon
  /// as both are there.
  void add(Node node);
  /// Copies what is borrowed, so that its memory can be freed.
  void settle();
  /// Ascending; no two make a node together.
  const std::vector<Node>& nodes() const { return nodes_; }
  std::vector<Node> take() { return std::exchange(nodes_, {}); }

  /// The largest nodes that parts of that range make whole, ascending.
  static std::vector<PartRange> nodes_within(std::size_t parts, PartRange range);
  /// Copies of the gradients that one rank holds at most, where each keeps those of its own parts.
  static std::size_t copies(std::size_t parts, int ranks);

 private:
  std::size_t parts_;
  std::vector<Node> nodes_;
};

}  // namespace penstock
