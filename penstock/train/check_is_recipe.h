// Tells a recipe's file from a study's.
#pragma once

#include "penstock/base/config_node.h"

namespace penstock {

/// Throws Error for the file of a study, with the command that runs it.
void check_is_recipe(const ConfigNode& node);

}  // namespace penstock
