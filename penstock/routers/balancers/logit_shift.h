// A shift of the logits that holds the number of active experts, moved by whole counts alone.
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

/// The group of experts that one shift steers. A struct with such a member lists these keys among
/// its own.
struct ShiftConfig {
  Shifted by = Shifted::model;
  double rate = 0.05;
  double revive = 0.02;

  template <class V>
  void visit(V& v) {
    v("by", by,
      {.help = "whose active experts the shift holds at k of E: all together, or each by itself"});
    v("rate", rate,
      {.help = "gain of the shift in its first step, in logits for an error of 1 in ln(active "
               "experts / k); steps then move it within 1e-4..1",
       .min = 1e-4,
       .max = 1});
    v("revive", revive,
      {.help = "an expert with less than this part of its even load is shifted up by a tenth of "
               "the gain more each step",
       .min = 0,
       .max = 1});
  }
};

/// b_le, added to the logits of expert e in layer l. After a step, with r = active experts / target
/// of all experts, of those of a layer, or of one:
///   e = clamp(ln r + o/3, −1, 1),   v ← 0.8·v + 0.2·e²,
///   u ← clamp(u·exp(0.2·(clamp(e·e'/v, −1, 1) + 0.1)), 1e-4, 1),   b ← b − u·e,
/// e' the error before. The gain u grows while errors keep their sign and shrinks where they change
/// it, so that no scale of the logits has to be known. o is what earlier steps had too many or too
/// few, in units of k, by clamp(active/k − 1, −1, 1) a step and within ±1.5: means over steps are
/// held, too. An expert with less than revive·(tokens·target/E) tokens rises by u/10 besides.
/// Equal on all ranks, as counts are. Cost of a step: O(L·E) on the CPU.
class LogitShift {
 public:
  /// Registers the buffers `bias` [L, E] and `steering` [units, 4], saved with the model.
  LogitShift(const RouterShape& shape, const ShiftConfig& config, torch::nn::Module& owner);

  /// [L, E], its own tensor.
  const at::Tensor& bias() const { return bias_; }
  /// Of a layer's experts [E].
  at::Tensor of(std::int64_t layer) const;
  double mean() const;
  /// @param target  active experts per token to hold from here on
  /// @param settling  the target is on its way to k: what steps have too many is not made up for
  void move(const StepStatistics& step, double target, bool settling = false);

 private:
  ShiftConfig config_;
  double k_;
  at::Tensor bias_;      // [L, E] f32
  at::Tensor steering_;  // [units, 4] f32: gain, last error, mean square of errors, owed
};

}  // namespace penstock
