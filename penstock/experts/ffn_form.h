// What kind of feed-forward network a layer or an expert is, beside its sizes.
#pragma once

#include <cstdint>

#include "penstock/experts/layer_tensors.h"
#include "penstock/ops/ops.h"

namespace penstock {

/// FFN(h) = down · drop(act(in · h + b_in)) + b_out.  The default: SwiGLU without biases or
/// dropout.
struct FfnForm {
  ops::Activation activation = ops::Activation::swiglu;
  bool bias = false;
  double dropout = 0;  ///< of act(..), in training

  /// m: products that feed the activation.
  std::int64_t inputs() const { return activation == ops::Activation::swiglu ? 2 : 1; }
  /// Name of the input matrices: "gate_up", gate rows first, or "up".
  const char* input_name() const { return inputs() == 2 ? "gate_up" : "up"; }
  /// Adds the tensors of such a network. Its parameters `gate_up` (or `up`) and `down` hold them,
  /// and with biases those of the same names with "_bias".
  /// @param role  of its matrices
  void describe(std::int64_t d_model, std::int64_t d_ffn, TensorRole role,
                const LayerTensors& at) const;
};

/// act(x) of x [..., m·f].  @return [..., f]
at::Tensor activate(const FfnForm& form, const at::Tensor& x);

}  // namespace penstock
