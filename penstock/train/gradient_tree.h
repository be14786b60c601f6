// The sum of a step's gradients over its parts in a fixed order, whichever process computes a part.
// Not for gradients that are summed in turn, in place: those need one copy only (step.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "penstock/dist/group.h"

namespace penstock {

/// Parts [first, last) of a step.
struct PartRange {
  std::size_t first = 0, last = 0;
  std::size_t size() const { return last - first; }
  friend bool operator==(const PartRange&, const PartRange&) = default;
};

/// The parts that a rank computes: consecutive ones, as many as the others' or one more.
PartRange parts_of_rank(std::size_t parts, int rank, int ranks);

/// Bytes that the busiest rank sends for one sum.
struct SumTraffic {
  std::int64_t nodes = 0;  ///< what its parts came to, to the ranks that add up
  std::int64_t sums = 0;   ///< the slice that it added up, to all
};

/// A binary tree over the parts' indices: a range of more than one is the sum of its first
/// 2^j parts (the most that leave some) and the rest.
///   sum [a, b) = sum [a, m) + sum [m, b),  m − a = the largest power of two below b − a
/// So the bits depend on the number of parts alone, not on the number of ranks. A rank holds the
/// largest ranges that its parts make whole: about log2(parts) copies of the gradients at most.
class GradientTree {
 public:
  using Gradients = std::vector<at::Tensor>;
  GradientTree(std::size_t parts, dist::ProcessGroup group);

  /// The gradients of this rank's next part, which it may change. All of one type, on the CPU.
  void add(Gradients gradients);
  /// The sum over all parts of all ranks, the same bits on each. Every rank calls it, after all its
  /// parts. Cost with several ranks: each sends about two copies of the gradients.
  /// @param like  shapes and type, for a rank without a part
  Gradients sum(const Gradients& like) &&;
  static SumTraffic traffic(std::size_t parts, int ranks, std::int64_t gradient_bytes);
  /// Copies of the gradients that one rank holds at most.
  static std::size_t copies(std::size_t parts, int ranks);

 private:
  struct Node {
    PartRange range;
    Gradients gradients;
  };
  bool is_node(PartRange range) const;
  void exchange(Gradients& out);

  std::size_t parts_, next_;
  dist::ProcessGroup group_;
  std::vector<Node> nodes_;  // ascending; no two make a node together
};

}  // namespace penstock
