// The mask of dropout, and its kernels. Not public: callers use ops.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <cstdint>

#include "penstock/base/random.h"

namespace penstock::ops {

/// Element (row, column) is kept if the upper 24 bits of a 32-bit hash of (seed, row, column) are
/// at least p · 2^24. The row's key is a whole 64-bit mix of (seed, row). The column adds a few
/// instructions, which compilers vectorise. `keys` gives the keys of rows from another rank.
struct Dropout {
  double p = 0;
  std::int64_t seed = 0;
  const std::int64_t* keys = nullptr;  ///< the rows' keys, instead of keys from the seed

  float scale() const { return static_cast<float>(1 / (1 - p)); }
  std::uint32_t threshold() const { return static_cast<std::uint32_t>(std::lround(p * 16777216)); }
  std::uint32_t row_key(std::int64_t row) const {
    if (keys) return static_cast<std::uint32_t>(keys[row]);
    return static_cast<std::uint32_t>(
        random_bits(static_cast<std::uint64_t>(seed), 0, static_cast<std::uint64_t>(row)));
  }
};

// The column's part of the hash: x = key ^ (column · kDropoutColumn), then a round with each of the
// two constants below.
inline constexpr std::uint32_t kDropoutColumn = 0x9e3779b9u;
inline constexpr std::uint32_t kDropoutFirst = 0x7feb352du, kDropoutSecond = 0x846ca68bu;

/// The factors of the mask, 0 or 1 / (1 − p), for rows [first, first + rows).
/// @return [rows, columns], typed by `options`.
at::Tensor dropout_mask(const Dropout& dropout, std::int64_t first, std::int64_t rows,
                        std::int64_t columns, const at::TensorOptions& options);

namespace reference {
at::Tensor dropout(const at::Tensor& x, double p, std::int64_t seed);
}  // namespace reference

namespace cpu {
/// Takes one sweep over x.
at::Tensor dropout(const at::Tensor& x, double p, std::int64_t seed);
}  // namespace cpu

}  // namespace penstock::ops
