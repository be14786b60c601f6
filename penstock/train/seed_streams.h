// Separate random streams of a recipe's seed, so that the data's order does not depend on the
// model's draws.
#pragma once

#include <cstdint>

#include "penstock/base/random.h"
#include "penstock/train/recipe.h"

namespace penstock {

enum class SeedStream : std::uint64_t { model = 1, data = 2, routers = 3 };

/// The bits of a stream at that index.
inline std::uint64_t seed_bits(const TrainConfig& train, SeedStream stream,
                               std::int64_t index = 0) {
  return random_bits(static_cast<std::uint64_t>(train.seed), static_cast<std::uint64_t>(stream),
                     static_cast<std::uint64_t>(index));
}

}  // namespace penstock
