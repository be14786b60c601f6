// Micro-batches of drawn tokens.
#pragma once

#include <cstdint>

#include "penstock/base/random.h"
#include "penstock/data/corpus/batches.h"

namespace penstock::testing {

/// Two rows of `length` tokens below `vocab`, drawn from the step and the part.
inline Batch drawn_batch(std::int64_t step, std::size_t part, std::int64_t length,
                         std::int64_t vocab) {
  const auto count = static_cast<std::uint64_t>(2 * length);
  const std::uint64_t place = static_cast<std::uint64_t>(step) * 100 + part;
  const auto draw = [&](std::uint64_t stream, std::uint64_t i) {
    return static_cast<std::int64_t>(
        random_below(random_bits(place, stream, i), static_cast<std::uint64_t>(vocab)));
  };
  Batch out{.sequences = 2, .length = length};
  out.domains.assign(count, 0);
  for (std::uint64_t i = 0; i < count; ++i) {
    out.inputs.push_back(draw(0, i));
    out.targets.push_back(draw(1, i));
  }
  return out;
}

}  // namespace penstock::testing
