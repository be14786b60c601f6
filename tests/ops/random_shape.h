// Random sizes for property tests. They are the same in every run; PENSTOCK_TEST_SEED changes them.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "penstock/base/random.h"

namespace penstock::testing {

/// The draws of one trial. Each call returns the next draw.
class RandomShape {
 public:
  explicit RandomShape(std::uint64_t trial) : trial_(trial) {}

  /// A size from lowest to highest, uniform in the number of bits: small sizes are as likely as
  /// large ones.
  std::int64_t size(std::int64_t lowest, std::int64_t highest) {
    std::int64_t limit = lowest;
    while (limit < highest && next() % 16 != 0) limit = 2 * limit + 1;
    limit = limit < highest ? limit : highest;
    return lowest +
           static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(limit - lowest + 1));
  }
  double share() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  bool coin() { return next() % 2 == 0; }

 private:
  std::uint64_t next() {
    static const char* const text = std::getenv("PENSTOCK_TEST_SEED");
    const std::uint64_t seed = text ? std::strtoull(text, nullptr, 10) : 1;
    return random_bits(seed, trial_, count_++);
  }

  std::uint64_t trial_, count_ = 0;
};

}  // namespace penstock::testing
