// Chooses the layers that a training computes again in its backward pass to stay within
// train.memory_budget. models/counts/recomputation.h says how a layer is computed again.
#pragma once

#include <string>

#include "penstock/models/counts/activations.h"
#include "penstock/train/recipe.h"

namespace penstock {

/// What is computed again, and its costs.
struct RecomputeChoice {
  Recomputation layers;
  double activation_bytes = 0;
  /// FLOPs computed again, divided by the useful FLOPs of training.
  double again = 0;
  /// Bytes that training takes with the choice of the least memory; 0 without a budget.
  double least_bytes = 0;
  bool fits = true;  ///< whether training fits into the budget; true without a budget
};

/// What the memory of one rank depends on, beside the choice.
struct RankShare {
  double others = 0;           ///< bytes of weights, gradients and moments
  double share_of_layers = 1;  ///< share of what all layers keep, times micro-batches held at once
  bool alike = false;          ///< whether all layers must be treated the same
};

/// Of the choices that fit into the recipe's budget, the one with the fewest FLOPs computed again.
/// Where none fits, the choice with the fewest bytes. Without a budget, the
/// choice of train.recompute_experts.
///
/// A choice computes the first m layers again whole and the experts of the next n layers, and keeps
/// everything of the rest. (The first layers come last in the backward pass, when it has freed what
/// the other layers kept.) A variant of each choice computes the experts of the m layers again
/// within them. With RankShare::alike, m and m + n are 0 or L. Otherwise they are multiples of
/// ⌈L/128⌉, or L.
/// Cost: O(min(L, 128)²) counts.
RecomputeChoice choose_recomputation(const Recipe& recipe, const ActivationCount& count,
                                     const RankShare& rank);

/// The number of bytes in a text such as "700 MiB", "12 GiB", "1.5GB" or "800000000"; 0 for "".
/// Throws Error where the text is no such size.
/// @param key  the recipe's key that has the text, for errors
double bytes_of_text(const std::string& text, const std::string& key);

/// Throws Error where the choice does not fit into the budget. The message gives the smallest
/// budget that training can meet.
void check_memory_budget(const Recipe& recipe, const RecomputeChoice& choice);

/// The layers that are computed again: "layers 0-3 whole, the experts of layers 4-7", or "nothing".
std::string recomputed_layers_text(const Recomputation& layers);

/// What is computed again, and its cost: "layers 0-3 whole, the experts of layers 4-7; 14 % more
/// FLOPs", or "nothing".
std::string recomputation_text(const RecomputeChoice& choice);

}  // namespace penstock
