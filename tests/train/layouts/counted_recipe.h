// What the tests of estimates count by hand: a small recipe, its rows, and what a rank sends.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "penstock/train/layouts/rank_estimate.h"
#include "tests/train/recipe_text.h"

namespace penstock::testing {

/// A small recipe, with the overrides, whose numbers can be counted by hand.
inline Recipe counted_recipe(std::vector<std::string> overrides = {}) {
  for (const char* more : {"train.micro_batch=1", "model.vocab=256", "model.heads=4"})
    overrides.push_back(more);
  return recipe_from(overrides);
}

/// The bytes that a rank sends in a step, by what they are.
inline std::map<std::string, std::int64_t> sent(const RankEstimate& estimate) {
  return {estimate.bytes_per_step.begin(), estimate.bytes_per_step.end()};
}

/// Bytes of a micro-batch's rows.
inline double rows_bytes(const Recipe& r) {
  return 4.0 * static_cast<double>(r.train.micro_batch * r.train.sequence_length * r.model.d_model);
}

}  // namespace penstock::testing
