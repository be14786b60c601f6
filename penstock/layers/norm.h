// Normalisation layers, and the residual stream that they read.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>

#include "penstock/experts/layer_tensors.h"
#include "penstock/ops/initial_draws.h"

namespace penstock {

/// The residual stream, and what the last sub-layer adds to it: the state is their sum. The norm
/// that reads it next does the addition, in the same sweep.
struct Residual {
  at::Tensor stream;
  at::Tensor delta = {};  ///< undefined: nothing is pending
  at::Tensor sum() const { return delta.defined() ? stream + delta : stream; }
};

/// Root-mean-square norm with a trained gain (1 at the start).  See ops::rms_norm.
class RmsNorm : public torch::nn::Module {
 public:
  RmsNorm(std::int64_t width, double eps);
  /// Adds the gain.
  /// @param gradient  what a rank has of its gradient: of a norm of the stream, of the rows held
  static void describe(std::int64_t width, const LayerTensors& at,
                       GradientShare gradient = GradientShare::of_rows);
  /// @param x [..., d].  @return the same shape.
  at::Tensor forward(const at::Tensor& x);
  /// Of the sum, which becomes the stream.
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
  /// Adds gain and bias, of a norm of the stream.
  static void describe(std::int64_t width, const LayerTensors& at);
  /// The gain ~ N(1, gain_std²).
  void initialize(double gain_std, const InitialDraws& draws);
  /// @param x [..., d].  @return the same shape.
  at::Tensor forward(const at::Tensor& x);

 private:
  at::Tensor weight_, bias_;  // [d]
  double eps_;
};

}  // namespace penstock
