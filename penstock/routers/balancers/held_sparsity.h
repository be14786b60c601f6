// Holds ReMoE's number of active experts by a shift of the logits, from the end of a dense start
// on. Also gives the weight of the L1 loss, which brings the shift back to zero.
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
      {.help = "hold: the L1 loss, in nats, when the shift closes experts and loads are even",
       .min = 0});
    v("dense_steps", dense_steps,
      {.help = "hold: first steps, in which the logits have no shift and the loss is 0", .min = 0});
    v("ramp_steps", ramp_steps,
      {.help = "hold: steps after dense_steps in which the target of ln(active experts) goes "
               "linearly to ln k",
       .min = 0});
    v("average_steps", average_steps,
      {.help = "hold: steps in the running mean of the shift that is used outside training; 1: the "
               "last step's shift",
       .min = 1});
    shift.visit(v);
  }
};

/// The first `dense_steps` steps have no shift and no loss. Let m be the number of active experts
/// after them. In step i of the ramp the target of the shift (logit_shift.h) is
///   ln target = ln k + ln(m/k)·(1 − i/ramp_steps);   after the ramp the target is k.
/// The L1 loss of layer l has the weight
///   λ_l = strength·g/(L·mean_t Σ_e R_te),   g = clamp(−mean_e b_le / mean gate, 0, 1).
/// The weight is 0 while the shift opens experts, and where all gates are 0. Otherwise the loss
/// does not depend on the gates' scale. The number of active experts fluctuates about k from step
/// to step, and so does the number that one step's shift gives on other text. Outside training the
/// shift is therefore a running mean over the n steps since the ramp's end,
///   b̄ ← b̄ + w·(b − b̄),   w = max(1/n, 1/average_steps).   Before the ramp's end b̄ is b.
class HeldSparsity {
 public:
  /// Registers the shift's buffers, `schedule` [2] (steps so far, and m), and `mean_bias` [L, E].
  HeldSparsity(const RouterShape& shape, const HoldConfig& config, torch::nn::Module& owner);

  const LogitShift& shift() const { return shift_; }
  /// b̄ of the layer's experts [E].
  at::Tensor mean_shift(std::int64_t layer) const;
  /// λ_l of a pass through layer l.
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
