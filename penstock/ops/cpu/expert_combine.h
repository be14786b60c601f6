// Sums the experts' rows into their tokens, one group of experts after another. Rows are always
// added in the order of the experts, so the bits depend on neither the groups nor the threads.
#pragma once

#include <algorithm>
#include <vector>

#include "penstock/ops/cpu/expert_views.h"
#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/rows.h"

namespace penstock::ops::cpu {

/// Assignments of the largest group.
inline std::int64_t largest_group(const ExpertViews& in, const std::vector<Group>& groups) {
  std::int64_t most = 0;
  for (const Group& group : groups)
    most = std::max(most, in.offsets[group.last] - in.offsets[group.first]);
  return most;
}

class TokenSums {
 public:
  /// all: sums tokens with a single assignment too.
  explicit TokenSums(const ExpertViews& in, bool all = false)
      : in_(in), all_(all), next_(in.token_offsets, in.token_offsets + in.tokens) {}

  /// Whether any token's rows must be summed.
  bool any() const {
    for (std::int64_t t = 0; t < in_.tokens; ++t)
      if (count(t) > (all_ ? 0 : 1)) return true;
    return false;
  }

  /// Zeroes the rows of out [T, d] whose tokens have no assignment.
  void clear_idle(float* out) const {
    for (std::int64_t t = 0; t < in_.tokens; ++t)
      if (count(t) == 0) std::fill_n(out + t * in_.width, in_.width, 0.0f);
  }

  /// Calls add_row(assignment, add, row) for the group's assignments. `add` is false for a token's
  /// first assignment; `row` is the token's row of out.  REQUIRES: one call a group, in order.
  template <class AddRow>
  void add(const Group& group, const AddRow& add_row, float* out) {
    const std::int64_t last = in_.offsets[group.last];
    parallel_ranges(in_.tokens, 64, [&](std::int64_t begin, std::int64_t end) {
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

  const ExpertViews& in_;
  bool all_;
  std::vector<std::int64_t> next_;  // by token: its next entry of by_token
};

/// Partial gradients that the tasks of a backward pass compute. A task covers some panels of f of
/// one expert. It computes a partial sum for each row and each gate of that expert.
class Partials {
 public:
  /// tasks: of `group`. A task's `expert` is its expert; its `partial` is the first of its rows of
  /// partial sums.
  template <class Task>
  Partials(const std::vector<Task>& tasks, const ExpertViews& in, const Group& group)
      : in_(in),
        first_expert_(group.first),
        first_(group.last - group.first, -1),
        parts_(group.last - group.first, 0) {
    for (const Task& task : tasks) {
      std::int64_t& start = first_[task.expert - group.first];
      start = start < 0 ? task.partial : std::min(start, task.partial);
      ++parts_[task.expert - group.first];
      rows_ += in.offsets[task.expert + 1] - in.offsets[task.expert];
    }
  }

  std::int64_t rows() const { return rows_; }

  struct Sums {
    const float *rows, *gates;  ///< [rows(), d] and [rows()]
  };
  /// out ← the sum of assignment a's partial rows, in the order of the tasks; with `add`, out +=
  /// the sum.  @return the sum of the assignment's partial gates.
  float add(std::int64_t a, std::int64_t expert, const Sums& sums, bool add, float* out) const {
    const std::int64_t begin = in_.offsets[expert], count = in_.offsets[expert + 1] - begin;
    float gate = 0;
    for (std::int64_t i = 0; i < parts_[expert - first_expert_]; ++i) {
      const std::int64_t row = first_[expert - first_expert_] + i * count + a - begin;
      scaled_row(in_.width, 1.0f, sums.rows + row * in_.width, add || i > 0, out);
      gate += sums.gates[row];
    }
    return gate;
  }

 private:
  const ExpertViews& in_;
  std::int64_t first_expert_, rows_ = 0;
  std::vector<std::int64_t> first_, parts_;  // by expert of the group
};

}  // namespace penstock::ops::cpu
