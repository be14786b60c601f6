// Which layers a training computes again in its backward pass so that it stays within
// train.memory_budget. How a layer is computed again is models' (models/counts/recomputation.h).
#pragma once

#include <cstdint>
#include <string>

#include "penstock/models/counts/activations.h"
#include "penstock/train/recipe.h"

namespace penstock {

/// What is computed again, and what that comes to.
struct RecomputeChoice {
  Recomputation layers;
  double activation_bytes = 0;
  /// FLOPs computed again, over the useful ones of training.
  double again = 0;
  /// Bytes of all with the most that can be computed again.
  double least_bytes = 0;
  bool fits = true;  ///< into the budget; true where there is none
};

/// What a count of one rank's memory depends on besides.
struct RankShare {
  double others = 0;           ///< bytes of weights, gradients and moments
  double share_of_layers = 1;  ///< of what all layers keep, times the micro-batches held at a time
  bool alike = false;          ///< every layer has to be treated as every other
};

/// The choice that computes the fewest FLOPs again of those that fit into the recipe's budget, or
/// the one of the fewest bytes where none does. Without a budget what train.recompute_experts says.
///
/// Choices: the first m layers whole (they are the last of the backward pass, which by then has let
/// go of what the others kept), the experts of the next n layers, and nothing of the rest; and each
/// of these with the experts of the m layers computed again within them. Layers that are to be
/// alike: all, or none. m and n are multiples of ⌈L/128⌉, or L.  Cost: O(min(L, 128)²) counts.
RecomputeChoice choose_recomputation(const Recipe& recipe, const ActivationCount& count,
                                     const RankShare& rank);

/// Bytes of a size such as "700 MiB", "12 GiB", "1.5GB" or "800000000"; 0 of "".
/// @param key  whose value it is, for errors.  Throws Error where it is none.
double bytes_of_text(const std::string& text, const std::string& key);

/// Throws Error where the choice does not fit, with the smallest budget that can be met.
void check_memory_budget(const Recipe& recipe, const RecomputeChoice& choice);

/// What is computed again: "layers 0-3 whole, the experts of layers 4-7; 14 % more FLOPs", or
/// "nothing".
std::string recomputation_text(const RecomputeChoice& choice);

}  // namespace penstock
