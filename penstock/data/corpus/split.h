// The three parts of a corpus and their names.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "penstock/base/error.h"

namespace penstock {

enum class Split : std::uint32_t { kTrain, kValidation, kTest };

inline constexpr std::size_t kSplits = 3;
inline constexpr std::array<std::string_view, kSplits> kSplitNames = {"train", "validation",
                                                                      "test"};

constexpr std::string_view split_name(Split split) {
  return kSplitNames[static_cast<std::size_t>(split)];
}

/// Throws Error for a word that is none of train, validation, test.
inline Split parse_split(std::string_view name) {
  for (std::size_t i = 0; i < kSplits; ++i)
    if (kSplitNames[i] == name) return static_cast<Split>(i);
  fail("unknown split '", name, "'; use train, validation or test");
}

}  // namespace penstock
