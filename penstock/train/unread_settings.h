// Settings of a recipe that its other settings leave unread, so that changing them changes nothing.
// They are said and not refused: a study lays one base under variants that read different keys.
#pragma once

#include <string>
#include <vector>

#include "penstock/train/recipe.h"

namespace penstock {

/// A sentence for each group of such settings, with their dotted keys.
/// @param asked     the recipe as it was read, before anything was filled in
/// @param complete  the same recipe, filled in
/// @param by_hand   else a run wrote it, with every option of the router's parts
std::vector<std::string> unread_settings(const Recipe& asked, const Recipe& complete, bool by_hand);

}  // namespace penstock
