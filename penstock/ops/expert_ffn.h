// Kernels of the grouped expert feed-forward. Not public: callers use ops.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace penstock::ops {

/// The arguments of ops::expert_ffn, checked.
struct ExpertProblem {
  at::Tensor hidden;                   ///< [T, d]
  at::Tensor weight, token, offsets;   ///< [A], [A], [E+1] on the CPU
  at::Tensor by_token, token_offsets;  ///< [A], [T+1]
  at::Tensor w_gate_up, w_down;        ///< [E, 2f, d], [E, d, f]

  std::int64_t tokens() const { return hidden.size(0); }
  std::int64_t width() const { return hidden.size(1); }       ///< d
  std::int64_t assignments() const { return token.size(0); }  ///< A
  std::int64_t experts() const { return w_down.size(0); }     ///< E
  std::int64_t inner() const { return w_down.size(2); }       ///< f
};
std::string describe(const ExpertProblem& problem);

struct ExpertOutput {
  at::Tensor output;   ///< [T, d]
  at::Tensor gate_up;  ///< [A, 2f], kept for the backward; undefined when it is not asked for
};

struct ExpertGradient {
  at::Tensor hidden, weight, w_gate_up, w_down;  ///< each as the input of that name
};

namespace reference {
ExpertOutput expert_ffn(const ExpertProblem& problem, bool keep_gate_up);
/// d_output [T, d].  The gate's gradient is ⟨silu(g) ⊙ u, w_downᵀ · d_output⟩: no output row is
/// kept.
ExpertGradient expert_ffn_backward(const at::Tensor& d_output, const ExpertProblem& problem,
                                   const at::Tensor& gate_up);
}  // namespace reference

namespace xsmm {
std::string declines_expert_ffn(const ExpertProblem& problem, bool keep_gate_up);
ExpertOutput expert_ffn(const ExpertProblem& problem, bool keep_gate_up);
std::string declines_expert_ffn_backward(const at::Tensor& d_output, const ExpertProblem& problem,
                                         const at::Tensor& gate_up);
ExpertGradient expert_ffn_backward(const at::Tensor& d_output, const ExpertProblem& problem,
                                   const at::Tensor& gate_up);
}  // namespace xsmm

}  // namespace penstock::ops
