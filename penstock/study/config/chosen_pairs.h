// The key `pairs` of a study's file: comparisons of two variants or of two groups of variants.
// runs/pair_comparison.h makes them.
#pragma once

#include <string>
#include <vector>

#include "penstock/base/config_node.h"
#include "penstock/study/config/comparison.h"

namespace penstock::study {

/// A pair that is written as a table.
struct PairFields {
  std::string label;
  std::vector<std::string> first, second;
  template <class V>
  void visit(V& v) {
    v("label", label, {.help = "name of the difference; none: the variants' labels"});
    v("first", first, {.help = "variants whose mean is the first of the two"});
    v("second", second, {.help = "variants whose mean is subtracted from it"});
  }
};

/// The pairs of pairs = [["first", "second"], {label = "...", first = [...], second = [...]}, ...].
/// @param variants  names of the variants in the file
/// Throws Error with file, line and key for an item that is neither, a list that has not two names,
/// a side without variants, an unknown variant, a variant that stands twice in a pair, and a pair
/// that is listed twice, in the same or the other order.
std::vector<ChosenPair> read_pairs(const ConfigNode::Array& pairs,
                                   const std::vector<std::string>& variants);

}  // namespace penstock::study
