// The arguments of the grouped expert feed-forward. Not public: callers use ops.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "penstock/ops/dropout.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/optional_tensor.h"

namespace penstock::ops {

/// The arguments of ops::expert_ffn, checked.
struct ExpertProblem {
  at::Tensor hidden;                   ///< [T, d]
  at::Tensor weight, token, offsets;   ///< [A], [A], [E+1] on the CPU
  at::Tensor by_token, token_offsets;  ///< [A], [T+1]
  at::Tensor w_in, w_out;              ///< [E, m·f, d] (m = 2 when gated), [E, d, f]
  at::Tensor b_in, b_out;              ///< [E, m·f] and [E, d], or undefined
  Activation activation = Activation::swiglu;
  double dropout = 0;  ///< probability of dropping act(..); rows are assignments (dropout.h)
  std::int64_t dropout_seed = 0;
  at::Tensor dropout_keys;  ///< [A] i64 on the CPU; undefined: keys from the seed
  bool gradient = false;    ///< a backward pass may follow, by the same implementation

  std::int64_t tokens() const { return hidden.size(0); }
  std::int64_t width() const { return hidden.size(1); }       ///< d
  std::int64_t assignments() const { return token.size(0); }  ///< A
  std::int64_t experts() const { return w_out.size(0); }      ///< E
  std::int64_t inner() const { return w_out.size(2); }        ///< f
  Dropout drop() const {
    return {.p = dropout, .seed = dropout_seed, .keys = data_or_null<std::int64_t>(dropout_keys)};
  }
  /// m: the number of products that feed the activation.
  std::int64_t inputs() const { return activation == Activation::swiglu ? 2 : 1; }
};
std::string describe(const ExpertProblem& problem);

}  // namespace penstock::ops
