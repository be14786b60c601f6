// The random numbers of Python's `random` module, with which lm-eval draws few-shot examples. The
// program's own draws use base/random.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace penstock::tasks {

/// The generator of `random.Random(seed)` in CPython 3.2 and later: MT19937, seeded by its
/// init_by_array.
class PythonRandom {
 public:
  explicit PythonRandom(std::uint64_t seed);
  /// `sample(range(n), count)`: `count` different indices below n, in the order drawn. Requires
  /// count <= n < 2^32.
  std::vector<std::size_t> sample(std::size_t n, std::size_t count);

 private:
  std::size_t below(std::size_t n);

  std::mt19937 engine_;
};

}  // namespace penstock::tasks
