// What the expert feed-forward's kernels of the CPU share: a problem's tensors as pointers, and its
// experts in groups. No arithmetic on data here.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "penstock/ops/expert_ffn.h"

namespace penstock::ops::cpu {

/// Contiguous views of a problem's tensors, kept alive.
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

  const float* hidden;  ///< null where it is bf16
  const float *weight, *w_in, *w_out, *b_in, *b_out;
  const std::int64_t *token, *offsets, *by_token, *token_offsets;

 private:
  std::vector<at::Tensor> held_;
};

/// Experts that are worked through together, so that rows and recomputed values of one group at a
/// time exist: at most max(2T, 8192) assignments, or one expert.
struct Group {
  std::int64_t first, last;  ///< experts [first, last)
};
std::vector<Group> groups(const ExpertViews& views);

/// The expert of each assignment.
std::vector<std::int32_t> experts_of(const ExpertViews& views);

}  // namespace penstock::ops::cpu
