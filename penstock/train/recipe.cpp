#include "penstock/train/recipe.h"

#include <algorithm>

#include "penstock/base/error.h"

namespace penstock {

Recipe read_recipe(const ConfigNode& node) {
  Recipe recipe = read_config<Recipe>(node);
  TrainConfig& train = recipe.train;
  if (train.micro_batch == 0) train.micro_batch = train.batch_sequences;
  PENSTOCK_CHECK(train.batch_sequences % train.micro_batch == 0,
                 "train.batch_sequences = ", train.batch_sequences,
                 " is not a multiple of train.micro_batch = ", train.micro_batch);
  if (train.min_lr < 0) train.min_lr = train.lr / 10;
  PENSTOCK_CHECK(train.min_lr <= train.lr, "train.min_lr = ", train.min_lr,
                 " is above train.lr = ", train.lr);
  if (train.warmup_steps < 0) train.warmup_steps = std::max<std::int64_t>(1, train.steps / 100);
  if (recipe.model.context == 0) recipe.model.context = train.sequence_length;
  // A vocabulary of 0 waits for the corpus.
  const std::int64_t vocab = recipe.model.vocab;
  if (vocab == 0) recipe.model.vocab = 1;
  recipe.model = recipe.model.resolved();
  recipe.model.vocab = vocab;
  if (recipe.model.moe_layers() > 0) resolve(recipe.model.router);  // parts exist and fit together
  return recipe;
}

}  // namespace penstock
