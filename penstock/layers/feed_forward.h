// The dense feed-forward layer.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <optional>

#include "penstock/experts/ffn_form.h"
#include "penstock/experts/layer_tensors.h"
#include "penstock/layers/rank_rows.h"
#include "penstock/ops/initial_draws.h"
#include "penstock/ops/stored_matrix.h"

namespace penstock {

/// Drops whole blocks of the inner neurons in training. All rows of a pass drop the same blocks.
/// Neuron j belongs to block j mod blocks. The neurons that stay are not scaled.
/// Source: Dense+Dropout of HyperRouter §4 and SMoE-Dropout (arXiv:2303.01610), as their code does.
struct BlockDropout {
  std::int64_t blocks = 1;
  double p = 0;
};

/// y = down · (silu(g) ⊙ u),  [g; u] = gate_up · x, or the ReLU network if the form says so.
/// Parameters are those of Experts without the axis of experts.
class FeedForward : public torch::nn::Module, public ops::ReadsStored {
 public:
  /// Matrices are not initialised, biases are 0.
  /// @param rows  Each of its ranks computes an equal part of the neurons, and holds their rows and
  ///              columns. If the ranks divide the rows, inputs and outputs are the rows that this
  ///              rank holds. REQUIRES with several ranks: no bias, no dropout (asserted).
  FeedForward(std::int64_t d_model, std::int64_t d_ffn, FfnForm form = {},
              BlockDropout block_dropout = {}, RankRows rows = {});
  /// Adds the layer's tensors as if one rank held all of them.
  /// @param role  the role of the matrices
  static void describe(std::int64_t d_model, std::int64_t d_ffn, const FfnForm& form,
                       TensorRole role, const LayerTensors& at);
  /// Draws the input matrices from N(0, std²) and `down` from N(0, output_std²).
  void initialize(double std, double output_std, const InitialDraws& draws);
  /// @param x [..., d].  @return the same shape.
  /// @param dropout_seed  the seed of both dropouts; nullopt: no dropout, as outside training
  at::Tensor forward(const at::Tensor& x, std::optional<std::int64_t> dropout_seed = std::nullopt);
  /// The two halves of forward(): x to the neurons' activations [..., f], and these to the output.
  at::Tensor inner(const at::Tensor& x, std::optional<std::int64_t> dropout_seed = std::nullopt);
  at::Tensor outer(const at::Tensor& inner);
  bool read_from(const std::string& parameter, const ops::StoredMatrix& matrix) override;

 private:
  at::Tensor dropped(at::Tensor inner, std::int64_t seed) const;

  FfnForm form_;
  BlockDropout block_dropout_;
  RankRows rows_;
  at::Tensor gate_up_, in_bias_;              // [m·f, d], [m·f] or undefined
  at::Tensor down_, out_bias_;                // [d, f], [d] or undefined
  ops::StoredMatrix stored_in_, stored_out_;  // replace the matrices, or empty
};

}  // namespace penstock
