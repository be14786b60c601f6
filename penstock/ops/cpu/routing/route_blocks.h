// A counting sort of assignments by expert, on all threads. It counts tokens in blocks of a fixed
// size, so the order and the sums do not depend on the number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/vec16.h"

namespace penstock::ops::cpu {

class RouteBlocks {
 public:
  static constexpr std::int64_t kTokens = 64;  ///< tokens of a block

  RouteBlocks(std::int64_t tokens, std::int64_t experts);

  /// E rounded up to whole vectors, the length of a block's counts and sums.
  std::int64_t width() const { return width_; }
  /// The number of each expert's assignments in the block; zero at first.
  std::int32_t* counts(std::int64_t block) { return counts_.data() + block * width_; }
  /// A sum per expert over the block's tokens; zero at first.
  float* sums(std::int64_t block) { return sums_.data() + block * width_; }

  /// Calls body(block, first token, last token + 1) for each block, on all threads.
  template <class Body>
  void each(const Body& body) const {
    const std::int64_t grain = 1 + 8192 / (width_ * kTokens);
    parallel_ranges(blocks_, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b)
        body(b, b * kTokens, std::min(tokens_, (b + 1) * kTokens));
    });
  }

  /// Computes the experts' offsets [E+1] from the counts. Replaces each count by the index of the
  /// block's first assignment of the expert.
  at::Tensor offsets();
  /// The index of the next assignment of each expert in the block.  REQUIRES: offsets() was called.
  std::int32_t* places(std::int64_t block) { return counts(block); }
  /// The blocks' sums, added in f64 in block order, times `scale`: [E] f32.
  at::Tensor total(double scale) const;

 private:
  std::int64_t tokens_, experts_, width_, blocks_;
  std::vector<std::int32_t> counts_;
  std::vector<float> sums_;
};

/// The expert of each assignment [A], from offsets [E+1].
at::Tensor expert_of_assignments(const at::Tensor& offsets);

/// E rounded up to whole vectors.
inline std::int64_t padded(std::int64_t experts) {
  return (experts + kLanes - 1) / kLanes * kLanes;
}

/// The row itself where it is whole vectors; else a copy in `buffer` [padded E], padded with
/// `fill`. readable: floats from the row's start to the end of the tensor.
PENSTOCK_INLINE const float* whole_vectors(const float* row, std::int64_t experts,
                                           std::int64_t readable, float fill, float* buffer) {
  const std::int64_t whole = experts / kLanes * kLanes;
  if (whole == experts) return row;
  for (std::int64_t e = 0; e < whole; e += kLanes) store(buffer + e, load(row + e));
  // The last vector is written as a vector, because the caller soon reads it as a vector.
  if (readable >= whole + kLanes)
    store(buffer + whole,
          choose(lanes_between(0, 0, experts - whole), load(row + whole), splat(fill)));
  else
    for (std::int64_t e = whole; e < whole + kLanes; ++e) buffer[e] = e < experts ? row[e] : fill;
  return buffer;
}

/// Bit i of the result says whether lane i is set.
PENSTOCK_INLINE std::uint32_t bits_of(const Int16& mask) {
  Int16 x = mask & Int16{1 << 0, 1 << 1, 1 << 2,  1 << 3,  1 << 4,  1 << 5,  1 << 6,  1 << 7,
                         1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15};
  x |= __builtin_shuffle(x, Int16{8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7});
  x |= __builtin_shuffle(x, Int16{4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11});
  x |= __builtin_shuffle(x, Int16{2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13});
  return static_cast<std::uint32_t>(x[0] | x[1]);
}

/// fast_exp for x ≤ 0, but 0 where e^x leaves the normal numbers (also for −∞).
PENSTOCK_INLINE Vec16 exp_or_zero(const Vec16& x) { return x < -87.0f ? Vec16{} : fast_exp(x); }

}  // namespace penstock::ops::cpu
