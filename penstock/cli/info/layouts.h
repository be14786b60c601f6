// `penstock info --ranks`: the fastest layouts of a number of processes.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

#include "penstock/train/layouts/rank_estimate.h"

namespace penstock {

/// The question to the search of layouts.
struct LayoutQuestion {
  int ranks = 0;      ///< number of processes; 0: no question
  double memory = 0;  ///< limit of a rank's bytes; 0: no limit
  std::size_t shown = 5;
};

/// An estimate's figures, with the keys of `parallel` in `penstock info --json`.
nlohmann::ordered_json estimate_json(const RankEstimate& rank);

/// The fastest layouts that fit, as `penstock info --ranks --json` prints them.
nlohmann::ordered_json layouts_json(const Recipe& recipe, const LayoutQuestion& question,
                                    const MachineSpeeds& speeds);

/// Prints them as a table.
void print_layouts(const Recipe& recipe, const LayoutQuestion& question,
                   const MachineSpeeds& speeds);

}  // namespace penstock
