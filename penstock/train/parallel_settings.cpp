#include "penstock/train/parallel_settings.h"

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/base/threads.h"

namespace penstock {

void check_processes(const Recipe& recipe, int processes) {
  const std::int64_t asked = recipe.parallel.data;
  PENSTOCK_CHECK(asked == 0 || asked == processes, "parallel.data = ", asked, ", but ", processes,
                 processes == 1 ? " process trains" : " processes train",
                 "; start as many (`penstock train --processes ", asked,
                 "`), or leave it at 0, which takes as many as are started");
  if (processes == 1) return;
  const TrainConfig& train = recipe.train;
  const std::int64_t parts = train.batch_sequences / train.micro_batch;
  PENSTOCK_CHECK(
      processes <= parts, processes, " processes share a step's micro-batches, and ",
      "train.batch_sequences = ", train.batch_sequences,
      " with train.micro_batch = ", train.micro_batch, " makes ", parts,
      " of them; set train.micro_batch to ",
      std::max<std::int64_t>(1, train.batch_sequences / processes),
      " or less (balancing statistics are taken over a micro-batch, so this changes the result), "
      "or start fewer processes");
  PENSTOCK_CHECK(recipe.run.device == "cpu", "run.device = '", recipe.run.device,
                 "': several processes train on the CPU only; start one");
  PENSTOCK_CHECK(
      train.gradient_sum != GradientOrder::in_turn,
      "train.gradient_sum = \"in-turn\" is for one process; leave it away, or start one");
}

void choose_gradient_sum(Recipe& recipe, const Recipe* begun, int processes) {
  GradientOrder& order = recipe.train.gradient_sum;
  if (order != GradientOrder::automatic) return;
  const bool tree_before = begun && begun->train.gradient_sum == GradientOrder::tree;
  order = processes > 1 || tree_before ? GradientOrder::tree : GradientOrder::in_turn;
  if (begun && order == GradientOrder::tree && !tree_before)
    recipe.notes.push_back(
        "the run was begun with train.gradient_sum = \"in-turn\" and goes on with \"tree\": it "
        "ends otherwise than with one process, by rounding");
}

int threads_of_process(const Recipe& recipe, int processes_here) {
  if (recipe.run.threads > 0 || processes_here == 1) return static_cast<int>(recipe.run.threads);
  return std::max(1, physical_cores() / processes_here);
}

}  // namespace penstock
