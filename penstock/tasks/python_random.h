// The random numbers of Python's `random` module, which lm-eval draws few-shot examples with. What
// the program draws for itself is base/random.h's matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace penstock::tasks {

/// What `random.Random(seed)` of CPython (3.2 and later) draws: MT19937, seeded by its
/// init_by_array.
class PythonRandom {
 public:
  explicit PythonRandom(std::uint64_t seed);
  /// `sample(range(n), count)`: that many different places below n, in the order drawn.
  /// Requires count <= n < 2^32.
  std::vector<std::size_t> sample(std::size_t n, std::size_t count);

 private:
  std::size_t below(std::size_t n);

  std::mt19937 engine_;
};

}  // namespace penstock::tasks
