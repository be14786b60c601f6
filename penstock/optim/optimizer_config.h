// The keys of AdamW and of its learning rate, which training and fine-tuning share. Not the update
// (adamw.h), not the learning rate of a step (schedule.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "penstock/base/fields.h"

namespace penstock {

enum class LrSchedule { cosine, linear, constant, steps };
constexpr std::array<std::string_view, 4> words(LrSchedule) {
  return {"cosine", "linear", "constant", "steps"};
}

enum class Decay { decoupled, coupled };
constexpr std::array<std::string_view, 2> words(Decay) { return {"decoupled", "coupled"}; }

/// The type of AdamW's moments: the weights' own type, or bf16 with stochastic rounding.
enum class Moments { fp32, bf16 };
constexpr std::array<std::string_view, 2> words(Moments) { return {"fp32", "bf16"}; }
/// The bytes of one moment of one weight in fp32.
constexpr std::int64_t moment_bytes(Moments moments) { return moments == Moments::bf16 ? 2 : 4; }

/// The bytes that a checkpoint has for one trained number: the weight in fp32 and both moments.
constexpr std::int64_t saved_bytes(Moments moments) { return 4 + 2 * moment_bytes(moments); }

/// The keys of the optimizer. A struct with a member of this type lists these keys among its own.
struct OptimizerConfig {
  double lr = 5e-4, min_lr = -1;
  LrSchedule lr_schedule = LrSchedule::cosine;
  std::int64_t warmup_steps = -1;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
  Decay decay = Decay::decoupled;
  double clip = 1.0;
  Moments moments = Moments::fp32;

  template <class V>
  void visit(V& v) {
    v("lr", lr, {.help = "highest learning rate", .min = 0});
    v("min_lr", min_lr, {.help = "learning rate at the end; -1: lr / 10", .min = -1});
    v("lr_schedule", lr_schedule,
      {.help = "learning rate after warm-up; steps: constant, multiplied by 0.316 at 80 % of the "
               "steps and again at 90 %"});
    v("warmup_steps", warmup_steps,
      {.help = "steps of linear warm-up; -1: 1 % of the steps", .min = -1});
    v("weight_decay", weight_decay,
      {.help = "weight decay; decoupled: only of tensors with two axes or more that are no biases",
       .min = 0});
    v("decay", decay,
      {.help = "decoupled: AdamW; coupled: L2 of Adam, added to the gradient of every tensor"});
    v("beta1", beta1, {.help = "AdamW's decay rate of the first moment", .min = 0, .max = 1});
    v("beta2", beta2, {.help = "AdamW's decay rate of the second moment", .min = 0, .max = 1});
    v("eps", eps, {.help = "AdamW's epsilon", .min = 0});
    v("clip", clip, {.help = "largest global gradient norm; 0: no clipping", .min = 0});
    v("moments", moments,
      {.help = "type of AdamW's two moments; bf16: 4 bytes per parameter less in memory and in "
               "checkpoints, with stochastic rounding"});
  }

  /// Fills the values that are left open (-1), for a run of `steps` steps. Throws Error if keys
  /// contradict each other. The error's text puts `keys` before their names: "train.".
  void complete(std::int64_t steps, const std::string& keys);
};

}  // namespace penstock
