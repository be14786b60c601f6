// Normalisation layers, and the residual stream that they read.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>

#include "penstock/experts/layer_tensors.h"
#include "penstock/ops/initial_draws.h"

namespace penstock {

/// The residual stream, and the last sub-layer's output that is not added yet. The state is their
/// sum. The next norm adds them in the same sweep over memory.
struct Residual {
  at::Tensor stream;
  at::Tensor delta = {};  ///< the output to add; undefined if there is none
  at::Tensor sum() const { return delta.defined() ? stream + delta : stream; }
};

/// Root-mean-square norm with a trained gain (1 at the start).  See ops::rms_norm.
class RmsNorm : public torch::nn::Module {
 public:
  RmsNorm(std::int64_t width, double eps);
  /// Adds the gain's tensor.
  /// @param gradient  the part of the gradient that one rank computes. For a norm of the stream it
  ///                  is the part of the rows that the rank holds.
  static void describe(std::int64_t width, const LayerTensors& at,
                       GradientShare gradient = GradientShare::of_rows);
  /// @param x [..., d].  @return the same shape.
  at::Tensor forward(const at::Tensor& x);
  /// Norms the sum. Stores the sum as the stream and clears `delta`.
  at::Tensor forward(Residual& x);

 private:
  at::Tensor weight_;  // [d]
  double eps_;
};

/// Layer norm: y = (x − mean) / sqrt(var + eps) ⊙ weight + bias over the last axis.
class LayerNorm : public torch::nn::Module {
 public:
  /// The gain is 1, the bias 0.
  LayerNorm(std::int64_t width, double eps);
  /// Adds the tensors of gain and bias, for a norm of the stream.
  static void describe(std::int64_t width, const LayerTensors& at);
  /// Draws the gain from N(1, gain_std²).
  void initialize(double gain_std, const InitialDraws& draws);
  /// @param x [..., d].  @return the same shape.
  at::Tensor forward(const at::Tensor& x);

 private:
  at::Tensor weight_, bias_;  // [d]
  double eps_;
};

}  // namespace penstock
