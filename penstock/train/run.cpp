#include "penstock/train/run.h"

#include <torch/types.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "penstock/base/config_origin.h"
#include "penstock/base/error.h"
#include "penstock/base/failure_text.h"
#include "penstock/base/memory.h"
#include "penstock/ops/machine/machine.h"
#include "penstock/train/follow.h"
#include "penstock/train/layouts/parallel_settings.h"
#include "penstock/train/longer_run.h"
#include "penstock/train/ranks/agreement.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/run_loop.h"
#include "penstock/train/run_memory.h"
#include "penstock/train/train_task.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// The recipe on rank 0, which sees the directory. A run that goes on keeps some settings of its
/// beginning.
Recipe recipe_of(const ConfigNode& node, const std::string& directory, bool resume, int processes) {
  const std::string path = directory + "/config.toml";
  Recipe recipe = with_initial_hash(read_recipe(node));
  layout_of(recipe, processes);
  std::optional<Recipe> begun;
  if (resume && fs::exists(path)) begun = recorded_recipe(path);
  if (begun) recipe = with_warm_up_of(*begun, std::move(recipe), node);
  choose_gradient_sum(recipe, begun ? &*begun : nullptr, processes);
  return recipe;
}

/// The same recipe on every rank. Ranks other than 0 need not see the directory.
Recipe recipe_on_ranks(const ConfigNode& node, const std::string& directory,
                       const TrainControl& control) {
  const dist::ProcessGroup& group = control.group;
  Recipe recipe = on_all_ranks(group, [&] {
    return naming_origins(node, [&] {
      return group.rank() == 0 ? recipe_of(node, directory, control.resume, group.size())
                               : with_initial_hash(read_recipe(node));
    });
  });
  TrainConfig& train = recipe.train;
  const at::Tensor chosen = torch::tensor(
      {train.optimizer.warmup_steps, static_cast<std::int64_t>(train.gradient_sum)}, at::kLong);
  group.broadcast(chosen);
  train.optimizer.warmup_steps = chosen[0].item<std::int64_t>();
  train.gradient_sum = static_cast<GradientOrder>(chosen[1].item<std::int64_t>());
  return recipe;
}

/// This rank's task, once all ranks have made theirs and the tasks agree.
std::unique_ptr<TrainTask> make_task(const ConfigNode& node, const std::string& directory,
                                     const TrainControl& control) {
  const Recipe recipe = recipe_on_ranks(node, directory, control);
  const dist::Layout layout =
      on_all_ranks(control.group, [&] { return layout_of(recipe, control.group.size()); });
  check_same_layout(control.group, layout, recipe.parallel);
  const dist::Mesh mesh = make_mesh(control.group, layout);
  TrainControl settled = control;
  settled.memory = memory_of_rank(control, [] { return available_memory_bytes(); });
  // A recipe that does not fit the corpus or the machine is a mistake in the recipe too.
  auto task = on_all_ranks(control.group, [&] {
    return naming_origins(node, [&] { return std::make_unique<TrainTask>(recipe, settled, mesh); });
  });
  task->meet_others();
  return task;
}

/// The failure in one line, which says where the program has a bug.
std::string text_of(const std::exception& error) {
  const bool expected = dynamic_cast<const Error*>(&error) != nullptr ||
                        dynamic_cast<const fs::filesystem_error*>(&error) != nullptr ||
                        memory_ran_out(error);
  return concat(expected ? "" : "internal error: ", failure_text(error));
}

}  // namespace

RunOutcome train_run(const ConfigNode& node, const std::string& run_directory,
                     const TrainControl& control) {
  ops::restart_peak_memory();  // a study's runs share a process
  const auto task = make_task(node, run_directory, control);
  try {
    if (control.group.rank() > 0)
      return follow(task->trainer(), control.group,
                    control.files ? *control.files : real_file_system(), task->memory_left());
    const RunOutcome outcome = run_task(*task, run_directory, control);
    task->leader().end(outcome);
    return outcome;
  } catch (const FailureOfRank& failed) {
    throw FailureOfRank(concat(failed.what(), "; the last complete step was ", task->step()));
  } catch (const dist::FailedRank& failed) {
    throw dist::FailedRank(failed, concat("; the last complete step was ", task->step()));
  } catch (const dist::LostRank& lost) {
    throw dist::LostRank(concat(lost.what(), "; the last complete step was ", task->step()));
  } catch (const ReportedByRankZero&) {
    throw;
  } catch (const std::exception& error) {
    // An error of rank 0 is mostly the run's; of another rank the reader has to know which it was.
    const dist::ProcessGroup& group = control.group;
    if (group.size() == 1 || (group.rank() == 0 && !memory_ran_out(error))) throw;
    throw FailureOfRank(
        concat(group.name(), ": ", text_of(error), "; the last complete step was ", task->step()));
  }
}

}  // namespace penstock
