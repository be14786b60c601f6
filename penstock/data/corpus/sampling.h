// The orders in which training can read a corpus, with their names in recipes.
#pragma once

#include <array>
#include <string_view>

namespace penstock {

enum class Sampling {
  kShuffled,  // every window of the packed train split once an epoch, in an order drawn from seed
  kRandom,    // windows at uniformly random offsets
  kStreams,   // row b reads the b-th of as many equal parts of the split, from its begin to its end
};
constexpr std::array<std::string_view, 3> words(Sampling) {
  return {"shuffled", "random", "streams"};
}

}  // namespace penstock
