#include "penstock/train/recipe.h"

namespace penstock {

Recipe result_settings(Recipe recipe) {
  const TrainConfig defaults;
  recipe.name = recipe.description = recipe.train.init_from = "";
  recipe.run = {};
  ParallelConfig apart;
  if (recipe.parallel.local_steps > 1) {
    apart.local_steps = recipe.parallel.local_steps;
    apart.outer_lr = recipe.parallel.outer_lr;
    apart.outer_momentum = recipe.parallel.outer_momentum;
  }
  recipe.parallel = apart;
  if (recipe.train.gradient_sum == GradientOrder::in_turn)
    recipe.train.gradient_sum = defaults.gradient_sum;  // auto means in-turn with one process
  recipe.train.checkpoint_every = defaults.checkpoint_every;
  recipe.train.keep_last = defaults.keep_last;
  recipe.train.keep_best = defaults.keep_best;
  recipe.train.recompute_experts = defaults.recompute_experts;
  recipe.train.memory_budget = defaults.memory_budget;
  // Undoes the completion of these keys where they have their usual values.
  TrainConfig& train = recipe.train;
  EvaluationKeys& evaluation = train.evaluation;
  if (evaluation.sequence_length == train.sequence_length)
    evaluation.sequence_length = defaults.evaluation.sequence_length;
  if (evaluation.streams == usual_streams(recipe.model))
    evaluation.streams = defaults.evaluation.streams;
  return recipe;
}

}  // namespace penstock
