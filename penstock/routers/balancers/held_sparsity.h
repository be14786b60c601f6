// ReMoE's number of active experts, held by a shift of the logits from the end of a dense start on;
// and the weight of the L1 loss that lets the shift go back to zero.
#pragma once

#include "penstock/routers/balancers/logit_shift.h"

namespace penstock {

struct HoldConfig {
  double strength = 0.01;
  std::int64_t dense_steps = 40;
  std::int64_t ramp_steps = 20;
  std::int64_t average_steps = 3;
  ShiftConfig shift;

  template <class V>
  void visit(V& v) {
    v("strength", strength,
      {.help = "hold: the L1 loss in nats where the shift closes experts and loads are even",
       .min = 0});
    v("dense_steps", dense_steps,
      {.help = "hold: steps before the shift moves, with as many experts on as there are",
       .min = 0});
    v("ramp_steps", ramp_steps,
      {.help = "hold: steps in which ln(active experts) is then led straight to ln k", .min = 0});
    v("average_steps", average_steps,
      {.help = "hold: steps of the running mean of the shift that is used outside training; 1: the "
               "last step's shift",
       .min = 1});
    shift.visit(v);
  }
};

/// After `dense_steps` steps without shift or loss, the target of the shift (logit_shift.h) goes
/// from the number n of experts that were on to k: ln target = ln k + ln(n/k)·(1 − i/ramp_steps).
/// The L1 loss of layer l has the weight
///   λ_l = strength·g/(L·mean_t Σ_e R_te),   g = clamp(−mean_e b_le / mean gate, 0, 1):
/// none while the shift opens experts, and else as much for gates of any scale.
/// Steps scatter about k, and so does what the shift of one step gives on other text. Outside
/// training the shift is therefore a running mean of those of the n steps since the ramp's end,
///   b̄ ← b̄ + w·(b − b̄),   w = max(1/n, 1/average_steps);   before, it is b.
class HeldSparsity {
 public:
  /// Registers the shift's buffers, `schedule` [2]: steps so far, and n, and `mean_bias` [L, E].
  HeldSparsity(const RouterShape& shape, const HoldConfig& config, torch::nn::Module& owner);

  const LogitShift& shift() const { return shift_; }
  /// b̄ of a layer's experts [E].
  at::Tensor mean_shift(std::int64_t layer) const;
  /// λ_l of a pass.
  double weight(const Plan& plan, std::int64_t layer) const;
  void after_step(const StepStatistics& step);

 private:
  HoldConfig config_;
  double k_;
  LogitShift shift_;
  at::Tensor schedule_;   // [2] f32
  at::Tensor mean_bias_;  // [L, E] f32
};

}  // namespace penstock
