// Rows of activations rounded to 8-bit integers, and their products with rows of Q4_K and Q6_K,
// whose codes are integers too: four products are one instruction where the processor has it
// (AVX512-VNNI). Sums of codes are exact and scales multiply them in one order, so a result depends
// neither on the rows beside it nor on whether that instruction is there. Q8_0 has no such
// products: they were slower than those with f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "penstock/ops/stored_rows.h"

namespace penstock::ops::cpu {

/// x in groups of 32 numbers: a scale, max |x| / 127, and codes round(x / scale). A group with a
/// number that is not finite has a scale that is not, so that its products are not either.
class Int8Rows {
 public:
  /// No rows; others have a depth of whole groups of 256 (asserted).
  Int8Rows() = default;
  Int8Rows(std::int64_t rows, std::int64_t depth);
  /// Sets a row. Threads may set different ones at once.
  void set(std::int64_t row, const float* x);

  std::int64_t rows() const { return rows_; }
  std::int64_t depth() const { return depth_; }
  /// Of a row, from number `first` on.
  const std::int8_t* codes(std::int64_t row, std::int64_t first) const {
    return codes_.data() + row * depth_ + first;
  }
  /// Sums of four codes each.
  const std::int32_t* fours(std::int64_t row, std::int64_t first) const {
    return fours_.data() + (row * depth_ + first) / 4;
  }
  /// Of the 256 numbers that `first` begins: eight scales; behind them eight times −scale · Σ
  /// codes.
  const float* scales(std::int64_t row, std::int64_t first) const {
    return scales_.data() + (row * depth_ + first) / 16;
  }

 private:
  std::int64_t rows_ = 0, depth_ = 0;
  std::vector<std::int8_t> codes_;
  std::vector<std::int32_t> fours_;
  std::vector<float> scales_;
};

/// Strides are from row to row, that of w in bytes.
struct Int8Operands {
  const Int8Rows& x;
  std::int64_t first_row;  ///< of x
  const std::byte* w;      ///< [columns, x.depth()]
  std::int64_t w_stride;
  float* y;  ///< [rows, columns]
  std::int64_t y_stride;
};

/// y[r, j] = x_r · w_j for that many rows and columns.
using Int8Products = void (*)(const Int8Operands& operands, std::int64_t rows,
                              std::int64_t columns);
/// Those of that type which this processor can run, the fastest first; all give the same bits.
/// Types other than Q4_K and Q6_K have none.
std::vector<Int8Products> int8_products(RowType type);
/// Whether those rows are to be multiplied so.
bool rounds_x(const StoredRows& rows);

/// The first of int8_products(type), of which there is one.
void dot_int8_rows(RowType type, const Int8Operands& operands, std::int64_t rows,
                   std::int64_t columns);

}  // namespace penstock::ops::cpu
