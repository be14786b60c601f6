// `penstock info --ranks`: which layouts of so many processes a plan would choose.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "penstock/train/layouts/rank_estimate.h"

namespace penstock {

/// What is asked of the layouts.
struct LayoutQuestion {
  int ranks = 0;      ///< 0: nothing is asked
  double memory = 0;  ///< bytes of a rank; 0: no limit
  std::size_t shown = 5;
};

/// An estimate's figures, in the words of `parallel` of `penstock info --json`.
nlohmann::ordered_json estimate_json(const RankEstimate& rank);

/// Prints the fastest layouts that fit, as a table or one JSON object.
void print_layouts(const Recipe& recipe, const LayoutQuestion& question,
                   const MachineSpeeds& speeds, bool json);

}  // namespace penstock
