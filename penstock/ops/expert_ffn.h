// Kernels of the grouped expert feed-forward. Not public: callers use ops.h. With hidden in bf16
// and all else in f32, both operands of each product are rounded (precision.h): hidden, w_in, the
// activation that goes to w_out, w_out; backward also d_output, the gradient of what feeds the
// activation, and weight·act(..). Results are f32.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "penstock/ops/dropout.h"
#include "penstock/ops/ops.h"

namespace penstock::ops {

/// The arguments of ops::expert_ffn, checked.
struct ExpertProblem {
  at::Tensor hidden;                   ///< [T, d]
  at::Tensor weight, token, offsets;   ///< [A], [A], [E+1] on the CPU
  at::Tensor by_token, token_offsets;  ///< [A], [T+1]
  at::Tensor w_in, w_out;              ///< [E, m·f, d] (m = 2 when gated), [E, d, f]
  at::Tensor b_in, b_out;              ///< [E, m·f] and [E, d], or undefined
  Activation activation = Activation::swiglu;
  double dropout = 0;  ///< of act(..), rows by assignment (see dropout.h)
  std::int64_t dropout_seed = 0;
  at::Tensor dropout_keys;  ///< [A] i64 on the CPU, or undefined: those of the seed
  bool gradient = false;    ///< a backward pass may follow, by the same implementation

  std::int64_t tokens() const { return hidden.size(0); }
  std::int64_t width() const { return hidden.size(1); }       ///< d
  std::int64_t assignments() const { return token.size(0); }  ///< A
  std::int64_t experts() const { return w_out.size(0); }      ///< E
  std::int64_t inner() const { return w_out.size(2); }        ///< f
  Dropout drop() const {
    return {.p = dropout,
            .seed = dropout_seed,
            .keys = dropout_keys.defined() ? dropout_keys.data_ptr<std::int64_t>() : nullptr};
  }
  /// m: products that feed the activation.
  std::int64_t inputs() const { return activation == Activation::swiglu ? 2 : 1; }
};
std::string describe(const ExpertProblem& problem);

struct ExpertOutput {
  at::Tensor output;  ///< [T, d]
  /// What went into the activation, for the backward of the same implementation; undefined when it
  /// is not asked for. The reference keeps [A, m·f]; others keep one axis in an order of their own.
  at::Tensor kept;
};

/// Each as the input of that name; those of absent biases stay undefined.
struct ExpertGradient {
  at::Tensor hidden, weight, w_in, w_out, b_in, b_out;
};

namespace reference {
ExpertOutput expert_ffn(const ExpertProblem& problem, bool keep);
/// d_output [T, d]. Computes what `kept` lacks again. The weight's gradient is
/// ⟨drop(act(in)), w_outᵀ·d_output⟩ + ⟨b_out, d_output⟩: no output row is kept.
ExpertGradient expert_ffn_backward(const at::Tensor& d_output, const ExpertProblem& problem,
                                   const at::Tensor& kept);
}  // namespace reference

namespace cpu {
/// For at most 16 tokens without gradient: reads the weights of the experts in use once, where they
/// lie. A token's result does not depend on the others, nor on the number of threads.
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
