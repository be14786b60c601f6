// Kernels of the grouped expert feed-forward. Not public: callers use ops.h. If hidden is bf16 and
// all else is f32, both operands of each product are rounded (precision.h). In the forward pass
// these are hidden, w_in, the activation's output and w_out; in the backward pass also d_output,
// the gradient of the activation's inputs, and weight·act(..). Results are f32.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "penstock/ops/expert_problem.h"

namespace penstock::ops {

struct ExpertOutput {
  at::Tensor output;  ///< [T, d]
  /// The activation's inputs, for the backward pass of the same implementation; undefined if the
  /// caller does not ask for them. The reference keeps [A, m·f]. Other implementations keep a flat
  /// tensor in their own order.
  at::Tensor kept;
};

/// Gradients, each with the shape of the input of its name; undefined for absent biases.
struct ExpertGradient {
  at::Tensor hidden, weight, w_in, w_out, b_in, b_out;
};

namespace reference {
ExpertOutput expert_ffn(const ExpertProblem& problem, bool keep);
/// d_output [T, d]. Recomputes the values that `kept` lacks. The weight's gradient is
/// ⟨drop(act(in)), w_outᵀ·d_output⟩ + ⟨b_out, d_output⟩, so it needs no output row of the forward
/// pass.
ExpertGradient expert_ffn_backward(const at::Tensor& d_output, const ExpertProblem& problem,
                                   const at::Tensor& kept);
}  // namespace reference

namespace cpu {
/// For at most 16 tokens without gradient. Reads the weights of the experts in use once, in place.
/// A token's result depends neither on other tokens nor on the number of threads.
std::string declines_expert_rows(const ExpertProblem& problem, bool keep);
ExpertOutput expert_rows(const ExpertProblem& problem, bool keep);
}  // namespace cpu

namespace bf16 {
std::string declines_expert_ffn(const ExpertProblem& problem, bool keep);
ExpertOutput expert_ffn(const ExpertProblem& problem, bool keep);
std::string declines_expert_ffn_backward(const at::Tensor& d_output, const ExpertProblem& problem,
                                         const at::Tensor& kept);
ExpertGradient expert_ffn_backward(const at::Tensor& d_output, const ExpertProblem& problem,
                                   const at::Tensor& kept);
}  // namespace bf16

namespace xsmm {
std::string declines_expert_ffn(const ExpertProblem& problem, bool keep);
ExpertOutput expert_ffn(const ExpertProblem& problem, bool keep);
std::string declines_expert_ffn_backward(const at::Tensor& d_output, const ExpertProblem& problem,
                                         const at::Tensor& kept);
ExpertGradient expert_ffn_backward(const at::Tensor& d_output, const ExpertProblem& problem,
                                   const at::Tensor& kept);
}  // namespace xsmm

}  // namespace penstock::ops
