// Rows of activations rounded to 8-bit integers, and their products with rows of Q4_K and Q6_K. The
// codes of these types are integers too, so AVX512-VNNI computes four products in one instruction.
// Sums of codes are exact, and scales multiply them in a fixed order. So a result depends neither
// on other rows nor on whether the processor has AVX512-VNNI. Q8_0 has no such products: they were
// slower than products with f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "penstock/ops/machine/precision.h"
#include "penstock/ops/stored_rows.h"

namespace penstock::ops::cpu {

/// x in groups of 32 numbers. A group has a scale, max |x| / 127, and codes round(x / scale). The
/// scale of a group with a number that is not finite is not finite, and neither are its products.
class Int8Rows {
 public:
  /// No rows.
  Int8Rows() = default;
  /// REQUIRES: depth is a multiple of 256 (asserted).
  Int8Rows(std::int64_t rows, std::int64_t depth);
  /// Sets a row. Threads may set different rows at once.
  void set(std::int64_t row, const float* x);

  std::int64_t rows() const { return rows_; }
  std::int64_t depth() const { return depth_; }
  /// The codes of a row, from number `first` on.
  const std::int8_t* codes(std::int64_t row, std::int64_t first) const {
    return codes_.data() + row * depth_ + first;
  }
  /// The sums of four codes each, from number `first` of a row on.
  const std::int32_t* sums_of_four(std::int64_t row, std::int64_t first) const {
    return sums_of_four_.data() + (row * depth_ + first) / 4;
  }
  /// For the 256 numbers of a row from `first` on: the scales of the eight groups, then −scale · Σ
  /// codes of the eight groups.
  const float* scales(std::int64_t row, std::int64_t first) const {
    return scales_.data() + (row * depth_ + first) / 16;
  }

 private:
  std::int64_t rows_ = 0, depth_ = 0;
  std::vector<std::int8_t> codes_;
  std::vector<std::int32_t> sums_of_four_;
  std::vector<float> scales_;
};

/// Strides are from row to row; w_stride is in bytes.
struct Int8Operands {
  const Int8Rows& x;
  std::int64_t first_row;  ///< of x
  const std::byte* w;      ///< [columns, x.depth()]
  std::int64_t w_stride;
  float* y;  ///< [rows, columns]
  std::int64_t y_stride;
};

/// y[r, j] = x_r · w_j for `rows` rows and `columns` columns.
using Int8Products = void (*)(const Int8Operands& operands, std::int64_t rows,
                              std::int64_t columns);
/// The products with w of type `type` that this processor can run, the fastest first. All give the
/// same bits. Types other than Q4_K and Q6_K have none.
std::vector<Int8Products> int8_products(RowType type);
/// Whether products with `rows` round x to 8-bit integers.
bool rounds_x(const StoredRows& rows);
/// The precision of an operator's products of more than 16 rows of x with `matrices`: bf16 if
/// products of few rows round x for all of them and this processor has bf16 products, else this
/// thread's.
ProductPrecision precision_of_many(std::initializer_list<std::span<const StoredRows>> matrices);

/// Runs the first of int8_products(type).  REQUIRES: the type has such products (asserted).
void dot_int8_rows(RowType type, const Int8Operands& operands, std::int64_t rows,
                   std::int64_t columns);

}  // namespace penstock::ops::cpu
