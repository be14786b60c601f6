// Chooses a model size and a number of steps that fit into a given time, for `penstock init`. It
// measures nothing; step_bench.h does.
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

/// The sizes to choose from, smallest first. d_ffn is the width of one expert.
std::span<const ModelSize> model_sizes();

/// What a recipe must keep to.
struct StartingRequirements {
  std::string method;              ///< a routing method of the registry
  double seconds = 1800;           ///< time for the steps of all runs together
  std::int64_t runs = 1;           ///< number of runs that share the time
  std::int64_t vocab = 256;        ///< vocabulary of the corpus
  std::int64_t corpus_tokens = 0;  ///< tokens in its training split; 0: unknown
};

/// The number of training tokens per active parameter, without embeddings (arXiv:2203.15556), and
/// the most epochs over one corpus.
inline constexpr double kTokensPerParameter = 20, kMostEpochs = 4;

/// A recipe of the given size: batches of 8 sequences of 256 tokens, 8 experts, one per token.
Recipe recipe_of_size(const ModelSize& size, const StartingRequirements& requirements);

/// The largest size that can train on kTokensPerParameter tokens per parameter in one run's time,
/// or the smallest size if none can.
/// @param flops  useful FLOPs of training per second, as measured with one of the sizes
const ModelSize& size_for(const StartingRequirements& requirements, double flops);

/// The number of steps of `step_seconds` seconds in one run's time: at most kMostEpochs epochs if
/// the corpus's size is known, but at least 10.
std::int64_t steps_for(const StartingRequirements& requirements, const Recipe& recipe,
                       double step_seconds);

}  // namespace penstock::bench
