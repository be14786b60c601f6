// The parts that all backward passes of the expert feed-forward share, for any kind of products:
// the gradients of biases, of the gates, and of experts without rows.
#pragma once

#include <cstdint>

#include "penstock/ops/cpu/expert_views.h"
#include "penstock/ops/expert_ffn.h"

namespace penstock::ops::cpu {

/// Uninitialised f32 tensors with the shapes of the problem's tensors.
ExpertGradient empty_gradient(const ExpertProblem& problem);

/// Pointers to the gradients of weights and biases.
struct WeightGradients {
  explicit WeightGradients(const ExpertGradient& gradient);

  /// Zeroes the gradients of an expert's biases that a task of columns [first, last) of f sums: its
  /// columns of b_in, and b_out for the task of the first column.
  void clear_biases(const ExpertViews& in, std::int64_t expert, std::int64_t first,
                    std::int64_t last) const;
  /// Zeroes all gradients of an expert, which has no rows.
  void clear(const ExpertViews& in, std::int64_t expert) const;
  /// Sets the gates' gradients of an expert's assignments [begin, end) to the output bias's share,
  /// which is 0 without the bias, and adds to the output bias's gradient.
  /// @param d_output [T, d]
  void add_bias_out(const ExpertViews& in, std::int64_t expert, std::int64_t begin,
                    std::int64_t end, const float* d_output, float* gates) const;

  float *w_in, *w_out, *b_in, *b_out;  ///< b_in and b_out: null without biases
};

}  // namespace penstock::ops::cpu
