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

/// Drops whole blocks of the inner neurons in training, the same for all rows of a pass: neuron j
/// belongs to block j mod blocks. What stays is not scaled.
/// Source: Dense+Dropout of HyperRouter §4 and SMoE-Dropout (arXiv:2303.01610), as their code does.
struct BlockDropout {
  std::int64_t blocks = 1;
  double p = 0;
};

/// y = down · (silu(g) ⊙ u),  [g; u] = gate_up · x, or the ReLU network of the form (see Experts,
/// whose parameters these are without the axis of experts).
class FeedForward : public torch::nn::Module, public ops::ReadsStored {
 public:
  /// Matrices are not initialised, biases are 0.
  /// @param rows  whose ranks each compute an equal part of the neurons, and hold their rows and
  ///              columns. Where these divide the rows, x and what is returned are the rows held.
  ///              REQUIRES with several: no bias, no dropout (asserted).
  FeedForward(std::int64_t d_model, std::int64_t d_ffn, FfnForm form = {},
              BlockDropout block_dropout = {}, RankRows rows = {});
  /// Adds the tensors of such a layer, as if one rank had them all.
  /// @param role  of its matrices
  static void describe(std::int64_t d_model, std::int64_t d_ffn, const FfnForm& form,
                       TensorRole role, const LayerTensors& at);
  /// The input matrices ~ N(0, std²), down ~ N(0, output_std²).
  void initialize(double std, double output_std, const InitialDraws& draws);
  /// @param x [..., d].  @return the same shape.
  /// @param dropout_seed  of both dropouts; nullopt: none, as outside training
  at::Tensor forward(const at::Tensor& x, std::optional<std::int64_t> dropout_seed = std::nullopt);
  /// The two halves of it: what the neurons give, [..., f], and what becomes of that.
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
  ops::StoredMatrix stored_in_, stored_out_;  // in place of the matrices, or empty
};

}  // namespace penstock
