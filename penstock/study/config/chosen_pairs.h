// The key `pairs` of a study's file: comparisons of two variants. runs/pair_comparison.h makes
// them.
#pragma once

#include <string>
#include <vector>

#include "penstock/base/config_node.h"
#include "penstock/study/config/comparison.h"

namespace penstock::study {

/// The pairs of pairs = [["first", "second"], ...].
/// @param node  the key's value in the file, for errors; may be null if there are no pairs
/// @param variants  names of the variants in the file
/// Throws Error with file, line and key for a pair that has not two names, an unknown variant, the
/// same variant twice, and a pair that is listed twice, in the same or the other order.
std::vector<ChosenPair> read_pairs(const std::vector<std::vector<std::string>>& pairs,
                                   const ConfigNode* node,
                                   const std::vector<std::string>& variants);

}  // namespace penstock::study
