// Sums a step's gradients over its parts in a fixed order, which does not depend on the process
// that computes a part. It does not add gradients in turn, in place. It sends nothing
// (unit_exchange.h does).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace penstock {

/// Parts [first, last) of a step.
struct PartRange {
  std::size_t first = 0, last = 0;
  std::size_t size() const { return last - first; }
  friend bool operator==(const PartRange&, const PartRange&) = default;
};

/// The parts that a rank computes. They are consecutive. The ranks' numbers of parts differ by at
/// most one.
PartRange parts_of_rank(std::size_t parts, int rank, int ranks);

/// A binary tree over the parts' indices. A range of more than one part is split so that the first
/// half has 2^j parts, where 2^j is the largest power of two that leaves a second half.
///   sum [a, b) = sum [a, m) + sum [m, b),  m − a = the largest power of two below b − a
/// So the bits depend on the number of parts only, not on the number of ranks. A rank holds the
/// largest nodes within its parts: at most about log2(parts) copies of the gradients.
class GradientTree {
 public:
  using Gradients = std::vector<at::Tensor>;
  struct Node {
    PartRange range;
    Gradients gradients;
    /// The gradients are views of memory that is freed soon. Sums are not written into them.
    bool borrowed = false;
  };
  explicit GradientTree(std::size_t parts) : parts_(parts) {}

  /// Adds a node. As soon as both halves of a node are there, replaces them with their sum. May
  /// write into the gradients of `node`, unless they are borrowed.
  void add(Node node);
  /// Copies borrowed gradients, so that their memory can be freed.
  void settle();
  /// The nodes so far, ascending. No two of them are the halves of a node.
  const std::vector<Node>& nodes() const { return nodes_; }
  std::vector<Node> take() { return std::exchange(nodes_, {}); }

  /// The largest nodes that lie within `range`, ascending.
  static std::vector<PartRange> nodes_within(std::size_t parts, PartRange range);
  /// The most copies of the gradients that a rank holds, if it keeps the nodes of all its own
  /// parts.
  static std::size_t copies(std::size_t parts, int ranks);

 private:
  std::size_t parts_;
  std::vector<Node> nodes_;
};

}  // namespace penstock
