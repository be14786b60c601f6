// Checks whether a run can go on when its recipe is given again with more steps. It can if its
// steps so far equal those of the longer run. Otherwise the checks give the reason. Writes nothing.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/base/config_node.h"
#include "penstock/train/recipe.h"

namespace penstock {

/// Returns `recipe`, which was read from `node` and continues the run of the recipe `before`. If
/// `recipe` has more steps and `node` leaves train.warmup_steps open, the result has the warm-up
/// steps of `before`. The default warm-up would follow from the new number of steps.
Recipe with_warm_up_of(const Recipe& before, Recipe recipe, const ConfigNode& node);

/// Why a run of the recipe `before` cannot go on to `steps` steps with the same result as a run
/// that had `steps` steps from the beginning; "" if it can. The learning rates and the experts per
/// token of its steps so far must be those of the longer run.
std::string why_not_longer(const Recipe& before, std::int64_t steps);

/// Throws Error unless the directory's run, of recipe `before`, is a run of recipe `now` or becomes
/// one by more steps. Returns the number of steps that the run was begun for if `now` has more,
/// else 0.
std::int64_t check_continues(const std::string& directory, const Recipe& before, const Recipe& now);

}  // namespace penstock
