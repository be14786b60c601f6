// A run whose recipe is given again with more steps: where its steps so far are
// those of the longer run it goes on, otherwise the reason is told. Writes nothing.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/base/config_node.h"
#include "penstock/train/recipe.h"

namespace penstock {

/// The recipe with the warm-up of the run that it goes on with: where `node`, which it was read
/// from, leaves that open, it would follow from the number of steps.
Recipe with_warm_up_of(const Recipe& before, Recipe recipe, const ConfigNode& node);

/// Why a run of this recipe cannot go on to `steps` steps and end as a run of so many from the
/// beginning does; "" where it can. Its learning rate and the schedule of its experts per token
/// must have been those of the longer run.
std::string why_not_longer(const Recipe& before, std::int64_t steps);

/// Throws Error unless the directory's run is one of `now`, or can be made one by more steps.
/// Returns the steps that it was begun for where they are fewer, else 0.
std::int64_t check_continues(const std::string& directory, const Recipe& before, const Recipe& now);

}  // namespace penstock
