// Sums of rows into their tokens, group after group of experts, always in expert order: the same
// bits whatever the groups and threads.
#pragma once

#include <algorithm>
#include <vector>

#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/xsmm/expert_layout.h"

namespace penstock::ops::xsmm {

/// Assignments of the largest group.
inline std::int64_t largest_group(const Operands& in, const std::vector<Group>& groups) {
  std::int64_t most = 0;
  for (const Group& group : groups)
    most = std::max(most, in.offsets[group.last] - in.offsets[group.first]);
  return most;
}

class TokenSums {
 public:
  /// `all`: also tokens with a single assignment are summed.
  explicit TokenSums(const Operands& in, bool all = false)
      : in_(in), all_(all), next_(in.token_offsets, in.token_offsets + in.tokens) {}

  /// Whether any token's rows have to be summed.
  bool any() const {
    for (std::int64_t t = 0; t < in_.tokens; ++t)
      if (count(t) > (all_ ? 0 : 1)) return true;
    return false;
  }

  /// Zeroes the rows [T, d] of tokens without an assignment.
  void clear_idle(float* out) const {
    for (std::int64_t t = 0; t < in_.tokens; ++t)
      if (count(t) == 0) std::fill_n(out + t * in_.width, in_.width, 0.0f);
  }

  /// Calls add_row(assignment, whether not the token's first, the token's row of out) for the
  /// group's assignments. Groups come in order, each once.
  template <class AddRow>
  void add(const Group& group, const AddRow& add_row, float* out) {
    const std::int64_t last = in_.offsets[group.last];
    cpu::parallel_ranges(in_.tokens, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        if (count(t) < (all_ ? 1 : 2)) continue;
        const std::int64_t first = in_.token_offsets[t], stop = in_.token_offsets[t + 1];
        for (std::int64_t& i = next_[t]; i < stop && in_.by_token[i] < last; ++i)
          add_row(in_.by_token[i], i > first, out + t * in_.width);
      }
    });
  }

 private:
  std::int64_t count(std::int64_t t) const {
    return in_.token_offsets[t + 1] - in_.token_offsets[t];
  }

  const Operands& in_;
  bool all_;
  std::vector<std::int64_t> next_;  // by token: its next entry of by_token
};

}  // namespace penstock::ops::xsmm
