// Which model and how many steps fit into the time that somebody has: the sizes that `penstock
// init` chooses from, and the choice. Measures nothing; step_bench.h does.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "penstock/train/recipe.h"

namespace penstock::bench {

/// A decoder's shape.
struct ModelSize {
  std::string_view name;
  std::int64_t d_model, layers, heads, d_ffn;
};

/// From the smallest to the largest; d_ffn is the width of one expert.
std::span<const ModelSize> model_sizes();

/// What is asked of a recipe.
struct StartingWish {
  std::string method;              ///< of the registry
  double seconds = 1800;           ///< for the steps of all its runs
  std::int64_t runs = 1;           ///< that share the time
  std::int64_t vocab = 256;        ///< of the corpus
  std::int64_t corpus_tokens = 0;  ///< of its training split; 0: not known
};

/// Tokens that training makes worth while, per parameter that is active and no embedding
/// (arXiv:2203.15556), and how often the same corpus is read at most.
inline constexpr double kTokensPerParameter = 20, kMostEpochs = 4;

/// A recipe of that size: batches of 8 sequences of 256 tokens, 8 experts, one per token.
Recipe recipe_of_size(const ModelSize& size, const StartingWish& wish);

/// The largest size that, at so many useful FLOP/s, gets kTokensPerParameter tokens in the time, or
/// the smallest. @param flops  of training, as measured with one of the sizes
const ModelSize& size_for(const StartingWish& wish, double flops);

/// Steps of `step_seconds` that one run has time for: at least 10, and no more than kMostEpochs
/// epochs of a corpus that is known.
std::int64_t steps_for(const StartingWish& wish, const Recipe& recipe, double step_seconds);

}  // namespace penstock::bench
