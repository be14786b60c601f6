// Keys with the same meaning in training and in fine-tuning. Each of the two has its own keys for
// its length, for the contents of a step and for evaluations: a step of training counts sequences,
// a step of fine-tuning counts texts.
#pragma once

#include <cstdint>

#include "penstock/base/fields.h"
#include "penstock/ops/machine/precision.h"
#include "penstock/optim/optimizer_config.h"

namespace penstock {

/// A config that derives from it lists these keys among its own.
struct TrainingBasics {
  ops::ProductPrecision precision = ops::ProductPrecision::fp32;
  OptimizerConfig optimizer;
  std::int64_t seed = 1234;
  std::int64_t keep_last = 2;

  template <class V>
  void visit_basics(V& v) {
    v("precision", precision,
      {.help =
           "type of the operands in the training products of linear layers, attention, experts and "
           "head: fp32, or bf16 rounded to nearest; sums are f32. Weights, gradients, softmax, "
           "norms, routers, losses and evaluation are fp32 in both. bf16 needs a processor with "
           "AMX or AVX512-BF16, or emulate_bf16 = true (in a recipe: run.emulate_bf16)"});
    optimizer.visit(v);
    v("seed", seed,
      {.help = "seed of the random draws: initial weights, order of the data, dropout, stochastic "
               "routers; in fine-tuning also the head's weights and the held-out texts",
       .min = 0});
    v("keep_last", keep_last,
      {.help = "number of newest checkpoints kept, in addition to the best", .min = 1});
  }
};

}  // namespace penstock
