#include "penstock/train/recipe.h"

#include <string>

#include "penstock/eval/perplexity.h"

namespace penstock {

std::string_view eval_streams_help() {
  static const std::string text =
      "evaluation cuts a split into so many streams and carries memory along each; 0: windows with "
      "nothing before them; -1: " +
      usual_streams_text();
  return text;
}

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
    recipe.train.gradient_sum = defaults.gradient_sum;  // what auto has come to with one process
  recipe.train.checkpoint_every = defaults.checkpoint_every;
  recipe.train.keep_last = defaults.keep_last;
  recipe.train.keep_best = defaults.keep_best;
  recipe.train.recompute_experts = defaults.recompute_experts;
  recipe.train.memory_budget = defaults.memory_budget;
  // As before these keys were completed: an evaluation of the usual kind goes without saying.
  TrainConfig& train = recipe.train;
  if (train.eval_sequence_length == train.sequence_length)
    train.eval_sequence_length = defaults.eval_sequence_length;
  if (train.eval_streams == usual_streams(recipe.model)) train.eval_streams = defaults.eval_streams;
  return recipe;
}

}  // namespace penstock
