// Finds settings of a recipe that nothing reads because of other settings, so that changing them
// changes nothing. They are reported and not refused, because a study uses one base for variants
// that read different keys.
#pragma once

#include <string>
#include <vector>

#include "penstock/train/recipe.h"

namespace penstock {

/// A sentence for each group of such settings, with their dotted keys.
/// @param asked     the recipe as it was read, before anything was filled in
/// @param complete  the same recipe, filled in
/// @param by_hand   whether a person wrote the recipe; a run writes every option of the router's
///                  parts
std::vector<std::string> unread_settings(const Recipe& asked, const Recipe& complete, bool by_hand);

}  // namespace penstock
