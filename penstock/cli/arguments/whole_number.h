// Checks of numbers on the command line. Their errors name the allowed values.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

namespace penstock {

/// A limit above every count of tokens. It keeps sums of counts far from overflow.
inline constexpr std::int64_t kLargestCount = 1'000'000'000'000'000;

/// The limit of run.threads, which is more than the cores of any present machine.
inline constexpr std::int64_t kMostThreads = 4096;

/// Refuses text that is not a whole number from `least` to `most`. Numbers beyond 64 bits are
/// refused too; they would otherwise be read as the largest number.
CLI::Validator whole_number(std::int64_t least, std::int64_t most = kLargestCount);

/// Refuses text that is not a finite number from `least` to `most`.
CLI::Validator real_number(double least, double most);

/// Refuses text that is not a number above 0.
CLI::Validator positive_number();

}  // namespace penstock
