// Checks of numbers on the command line that say what may stand there.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

namespace penstock {

/// What no count of tokens reaches; keeps sums of them far from wrapping.
inline constexpr std::int64_t kLargestCount = 1'000'000'000'000'000;

/// As run.threads has: more than any machine of today has cores.
inline constexpr std::int64_t kMostThreads = 4096;

/// Refuses what is not a whole number from `least` to `most`, and digits beyond 64 bits, which
/// would be read as the largest number.
CLI::Validator whole_number(std::int64_t least, std::int64_t most = kLargestCount);

/// Refuses what is not a finite number from `least` to `most`.
CLI::Validator real_number(double least, double most);

/// Refuses what is not a number above 0.
CLI::Validator positive_number();

}  // namespace penstock
