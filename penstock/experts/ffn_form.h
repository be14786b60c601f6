// The form of a layer's or an expert's feed-forward network, apart from its sizes.
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
  double dropout = 0;  ///< the probability of dropping act(..), in training

  /// m: the number of products that feed the activation.
  std::int64_t inputs() const { return activation == ops::Activation::swiglu ? 2 : 1; }
  /// Name of the input matrices: "gate_up", gate rows first, or "up".
  const char* input_name() const { return inputs() == 2 ? "gate_up" : "up"; }
  /// Adds the network's tensors. The parameters `gate_up` (or `up`) and `down` hold the matrices.
  /// With biases, the parameters of these names with "_bias" hold the biases.
  /// @param role  the role of the matrices
  void describe(std::int64_t d_model, std::int64_t d_ffn, TensorRole role,
                const LayerTensors& at) const;
};

/// act(x) of x [..., m·f].  @return [..., f]
at::Tensor activate(const FfnForm& form, const at::Tensor& x);

}  // namespace penstock
