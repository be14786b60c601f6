// The views that the CPU kernels of the expert feed-forward share: a problem's tensors as pointers,
// and its experts in groups. It does no arithmetic on data.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "penstock/ops/expert_ffn.h"

namespace penstock::ops::cpu {

/// Pointers to a problem's tensors, each contiguous. The object keeps the tensors alive.
struct ExpertViews {
  explicit ExpertViews(const ExpertProblem& problem);

  std::int64_t tokens, width, assignments, experts, inner, inputs;  ///< T, d, A, E, f, m
  /// Expert e's [f, d] input matrix i, and its output matrix [d, f].
  const float* in(std::int64_t e, std::int64_t i) const {
    return w_in + (e * inputs + i) * inner * width;
  }
  const float* out(std::int64_t e) const { return w_out + e * width * inner; }
  const float* bias_in(std::int64_t e, std::int64_t i) const {
    return b_in ? b_in + (e * inputs + i) * inner : nullptr;
  }
  const float* bias_out(std::int64_t e) const { return b_out ? b_out + e * width : nullptr; }

  const float* hidden;  ///< null if the problem's hidden is bf16
  const float *weight, *w_in, *w_out, *b_in, *b_out;
  const std::int64_t *token, *offsets, *by_token, *token_offsets;

 private:
  std::vector<at::Tensor> held_;
};

/// Experts that a pass computes together. Only one group's rows and recomputed values are in memory
/// at a time. A group has at most max(2T, 8192) assignments, or it is a single expert.
struct Group {
  std::int64_t first, last;  ///< experts [first, last)
};
std::vector<Group> groups(const ExpertViews& views);

/// The number of tasks into which a backward pass cuts an expert with `rows` of its group's `all`
/// rows: more than one if the expert has more than 1/16 of the rows, and at most `most`.
std::int64_t backward_parts(std::int64_t rows, std::int64_t all, std::int64_t most);

/// The expert of each assignment.
std::vector<std::int32_t> experts_of(const ExpertViews& views);

}  // namespace penstock::ops::cpu
