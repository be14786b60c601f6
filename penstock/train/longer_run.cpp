#include "penstock/train/longer_run.h"

#include "penstock/base/error.h"
#include "penstock/models/counts/model_tensors.h"
#include "penstock/train/run_identity.h"

namespace penstock {
namespace {

/// Whether the experts per token, at every step of the shorter run, are those of the longer one.
bool same_schedule_of_k(const ModelConfig& model, std::int64_t shorter, std::int64_t longer) {
  if (model.moe_layers() == 0) return true;
  const auto selector = selector_of(model);
  for (std::int64_t step = 0; step < shorter; ++step) {
    RoutingContext context{.step = step, .total_steps = shorter, .training = true};
    const double before = selector->nominal_k(context);
    context.total_steps = longer;
    if (selector->nominal_k(context) != before) return false;
  }
  return true;
}

}  // namespace

Recipe with_warm_up_of(const Recipe& before, Recipe recipe, const ConfigNode& node) {
  const ConfigNode* train = node.find("train");
  const ConfigNode* asked = train ? train->find("warmup_steps") : nullptr;
  const auto* steps = asked ? std::get_if<std::int64_t>(&asked->value()) : nullptr;
  const bool open = !steps || *steps < 0;
  if (open && before.train.steps < recipe.train.steps)
    recipe.train.optimizer.warmup_steps = before.train.optimizer.warmup_steps;
  return recipe;
}

std::string why_not_longer(const Recipe& before, std::int64_t steps) {
  const TrainConfig& train = before.train;
  if (train.optimizer.lr_schedule != LrSchedule::constant)
    return concat("train.lr_schedule = \"", word(train.optimizer.lr_schedule),
                  "\" is laid over train.steps = ", train.steps,
                  ", so its learning rates were not those of a longer run");
  if (!same_schedule_of_k(before.model, train.steps, steps))
    return concat("the schedule of its experts per token is laid over train.steps = ", train.steps);
  return "";
}

std::int64_t check_continues(const std::string& directory, const Recipe& before,
                             const Recipe& now) {
  const std::string other = difference(before, now);
  if (other.empty()) return 0;
  const std::string &began = before.train.init_hash, &given = now.train.init_hash;
  PENSTOCK_CHECK(began.empty() || given.empty() || began == given, directory,
                 ": began with the model of hash ", began,
                 ", and train.init_from = ", now.train.init_from, " has ", given,
                 ": put that model back, or choose another folder");
  Recipe longer = before;
  longer.train.steps = now.train.steps;
  const bool only_longer = now.train.steps > before.train.steps && difference(longer, now).empty();
  PENSTOCK_CHECK(only_longer, directory, ": holds a run of another recipe (", other,
                 "); choose another folder");
  const std::string reason = why_not_longer(before, now.train.steps);
  PENSTOCK_CHECK(reason.empty(), directory, ": holds a run of another recipe (", other,
                 "), and it cannot go on to more steps: ", reason,
                 ". To train on from its weights, begin another run, in another folder, with "
                 "train.init_from = ",
                 directory);
  return before.train.steps;
}

}  // namespace penstock
