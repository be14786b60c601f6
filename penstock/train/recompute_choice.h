// Chooses the layers that a training computes again in its backward pass to stay within
// train.memory_budget. models/counts/recomputation.h says how a layer is computed again.
#pragma once

#include <string>

#include "penstock/models/counts/activations.h"
#include "penstock/train/recipe.h"

namespace penstock {

/// The layers that are computed again, and their costs.
struct RecomputeChoice {
  Recomputation layers;
  double activation_bytes = 0;
  /// FLOPs computed again, divided by the useful FLOPs of training.
  double again = 0;
  /// Bytes that training takes with the choice that needs the least memory; 0 without a budget.
  double least_bytes = 0;
  bool fits = true;  ///< whether training fits into the budget; true without a budget
};

/// The figures of one rank, besides the choice, that decide its memory.
struct RankShare {
  double others = 0;  ///< bytes of weights, gradients and moments
  /// this rank's share of the activations of all layers, times micro-batches held at once
  double share_of_layers = 1;
  bool alike = false;  ///< whether all layers must be treated the same
};

/// The choice with the fewest FLOPs computed again that fits into the recipe's budget. If none
/// fits, the choice with the fewest bytes. Without a budget, the choice of train.recompute_experts.
///
/// A choice recomputes the first m layers whole and only the experts of the next n layers, and
/// keeps all activations of the rest. (The backward pass reaches the first layers last, when it has
/// freed the activations of the other layers.) A variant of each choice also recomputes the experts
/// within the recomputed m layers. With RankShare::alike, m and m + n are 0 or L. Otherwise they
/// are multiples of ⌈L/128⌉, or L.
/// Cost: O(min(L, 128)²) counts.
RecomputeChoice choose_recomputation(const Recipe& recipe, const ActivationCount& count,
                                     const RankShare& rank);

/// The number of bytes in a text such as "700 MiB", "12 GiB", "1.5GB" or "800000000"; 0 for "".
/// Throws Error if the text is not such a size.
/// @param key  the recipe's key that has the text, for errors
double bytes_of_text(const std::string& text, const std::string& key);

/// Throws Error if the choice does not fit into the budget. The message gives the smallest budget
/// that training can meet.
void check_memory_budget(const Recipe& recipe, const RecomputeChoice& choice);

/// The layers that are computed again: "layers 0-3 whole, the experts of layers 4-7", or "nothing".
std::string recomputed_layers_text(const Recomputation& layers);

/// The layers that are computed again, and the cost: "layers 0-3 whole, the experts of layers 4-7;
/// 14 % more FLOPs", or "nothing".
std::string recomputation_text(const RecomputeChoice& choice);

}  // namespace penstock
