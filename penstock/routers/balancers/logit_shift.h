// A shift of the logits that holds the number of active experts. It moves by whole counts alone.
#pragma once

#include <torch/nn/module.h>

#include <array>
#include <string_view>

#include "penstock/base/fields.h"
#include "penstock/routers/routing.h"
#include "penstock/routers/step_statistics.h"

namespace penstock {

enum class Shifted { model, layer, expert };
constexpr std::array<std::string_view, 3> words(Shifted) { return {"model", "layer", "expert"}; }

/// The options of the shift. A config with this member lists these keys among its own.
struct ShiftConfig {
  Shifted by = Shifted::model;
  double rate = 0.05;
  double revive = 0.02;

  template <class V>
  void visit(V& v) {
    v("by", by,
      {.help = "group of experts whose active number one shift holds at k of E: all of the model, "
               "a layer, or a single expert"});
    v("rate", rate,
      {.help = "gain of the shift in its first step, in logits for an error of 1 in ln(active "
               "experts / k); later steps adapt the gain within 1e-4..1",
       .min = 1e-4,
       .max = 1});
    v("revive", revive,
      {.help = "an expert whose load is below this fraction of the even load gets an additional "
               "upward shift of a tenth of the gain in each step",
       .min = 0,
       .max = 1});
  }
};

/// The shift b_le is added to the logits of expert e in layer l. A unit is a group of experts that
/// one controller steers: all experts, the experts of a layer, or one expert. After each step, with
/// r = active experts / target of the unit:
///   e = clamp(ln r + o/3, −1, 1),   v ← 0.8·v + 0.2·e²,
///   u ← clamp(u·exp(0.2·(clamp(e·e'/v, −1, 1) + 0.1)), 1e-4, 1),   b ← b − u·e,
/// where e' is the error of the step before. The gain u grows while errors keep their sign and
/// shrinks when the sign changes, so that the scale of the logits need not be known. o is the sum
/// of clamp(active/k − 1, −1, 1) over the steps, kept within ±1.5: the excess of active experts, in
/// units of k. Because of o the mean over steps is held too. The shift of an expert with fewer than
/// revive·(tokens·target/E) tokens also rises by u/10.
/// Shifts are equal on all ranks, since counts are. Cost of a step: O(L·E) on the CPU.
class LogitShift {
 public:
  /// Registers the buffers `bias` [L, E] and `steering` [units, 4] with `owner`. They are saved
  /// with the model.
  LogitShift(const RouterShape& shape, const ShiftConfig& config, torch::nn::Module& owner);

  /// The shifts [L, E]; the buffer itself.
  const at::Tensor& bias() const { return bias_; }
  /// The shifts of the layer's experts [E]; a view of the buffer.
  at::Tensor of(std::int64_t layer) const;
  double mean() const;
  /// Moves the shifts after a step.
  /// @param target  active experts per token to hold from now on
  /// @param settling  whether the target still moves to k; o then stays as it is
  void move(const StepStatistics& step, double target, bool settling = false);

 private:
  ShiftConfig config_;
  double k_;
  at::Tensor bias_;      // [L, E] f32
  at::Tensor steering_;  // [units, 4] f32: gain u, last error e', mean square of errors v, o
};

}  // namespace penstock
