// The orders in which training can read a corpus, with their names in recipes.
#pragma once

#include <array>
#include <string_view>

namespace penstock {

enum class Sampling {
  kShuffled,  // every window of the training split once an epoch, in an order drawn from the seed
  kRandom,    // windows at uniformly random offsets
  kStreams,   // the split has one equal part for each row; row b reads part b in order
};
constexpr std::array<std::string_view, 3> words(Sampling) {
  return {"shuffled", "random", "streams"};
}

}  // namespace penstock
