// The experts of one layer: their weights, and the feed-forward over a plan. Not the router, not
// the residual; expert placement over ranks is not handled here.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <optional>

#include "penstock/experts/ffn_form.h"
#include "penstock/ops/initial_draws.h"
#include "penstock/routers/routing.h"

namespace penstock {

/// E feed-forward networks, applied where a plan says; gated and without biases (SwiGLU) unless the
/// form says otherwise.
///   FFN_e(h) = down[e] · (silu(g) ⊙ u),  [g; u] = gate_up[e] · h
///   FFN_e(h) = down[e] · drop(relu(up[e] · h + up_bias[e])) + down_bias[e]
/// Parameters: `gate_up` [E, 2f, d], gate rows first, or `up` [E, f, d]; `down` [E, d, f]; with
/// biases `gate_up_bias` [E, 2f] or `up_bias` [E, f], and `down_bias` [E, d].
class Experts : public torch::nn::Module {
 public:
  /// Matrices are not initialised, biases are 0.
  Experts(std::int64_t experts, std::int64_t d_model, std::int64_t d_ffn, FfnForm form = {});

  /// The input matrices ~ N(0, std²), down ~ N(0, down_std²).
  void initialize(double std, double down_std, const InitialDraws& draws);

  /// Assignments: y_t = Σ_{a: token_a = t} weight_a · FFN_{expert_a}(h_t).
  /// Merging: y_t = FFN with weights θ̄_s = Σ_e w_se θ_e (each matrix, each bias) of t's segment s.
  /// @param hidden [T, d] f32|f64.  @return [T, d]; tokens without an expert get zero.
  /// @param dropout_seed  of the form's dropout; nullopt: none, as outside training
  /// Gradient: hidden, the plan's weights, all parameters (zero for unused experts).
  /// REQUIRES: the plan's T and E match (checked). Cost of merging: S·E·3df for the blends.
  /// Source of merging: Lory, arXiv:2405.03133, Eq. 2.
  at::Tensor forward(const at::Tensor& hidden, const Plan& plan,
                     std::optional<std::int64_t> dropout_seed = std::nullopt);

  /// Keep nothing of size A·f for the backward pass, but compute it again (ops::ExpertOptions).
  bool recompute = false;

  const at::Tensor& gate_up() const { return gate_up_; }
  const at::Tensor& down() const { return down_; }

 private:
  at::Tensor merged(const at::Tensor& hidden, const Plan& plan,
                    std::optional<std::int64_t> dropout_seed) const;

  FfnForm form_;
  at::Tensor gate_up_;             // [E, m·f, d]
  at::Tensor down_;                // [E, d, f]
  at::Tensor in_bias_, out_bias_;  // [E, m·f], [E, d], or undefined
};

}  // namespace penstock
