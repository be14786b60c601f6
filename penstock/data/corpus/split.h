// The three parts of a corpus and their names.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace penstock {

enum class Split : std::uint32_t { kTrain, kValidation, kTest };

inline constexpr std::size_t kSplits = 3;
inline constexpr std::array<std::string_view, kSplits> kSplitNames = {"train", "validation",
                                                                      "test"};

constexpr std::array<std::string_view, kSplits> words(Split) { return kSplitNames; }

constexpr std::string_view split_name(Split split) {
  return kSplitNames[static_cast<std::size_t>(split)];
}

}  // namespace penstock
