// Small fp32 matrix products by libxsmm, row-major. Only product.cpp includes libxsmm.
#pragma once

#include <cstdint>

namespace penstock::ops::xsmm {

/// Shape of c (+)= a·b, all row-major: a [rows, depth], b [depth, columns], c [rows, columns].
struct ProductShape {
  std::int64_t rows, columns, depth;
  std::int64_t a_stride, b_stride, c_stride;  ///< from row to row
  bool transpose_a = false;                   ///< a is stored [depth, rows]
  bool accumulate = false;                    ///< c += instead of c =
};

/// A compiled product. Calls are thread-safe; operands may be unaligned.
class Product {
 public:
  void operator()(const float* a, const float* b, float* c) const { call_(b, a, c); }

 private:
  friend Product compile(const ProductShape& shape);
  using Call = void (*)(const float*, const float*, float*, ...);
  explicit Product(Call call) : call_(call) {}
  Call call_;
};

/// Whether this build has libxsmm.
bool built();

/// Whether libxsmm compiles kernels for this processor (AVX2 and later). False in a build without
/// libxsmm.
bool supported();

/// The product of a shape. It is compiled once per process, then found by hash.
/// REQUIRES: supported(), sizes > 0.  Thread-safe.
Product compile(const ProductShape& shape);

/// Rows of a task: `most`, or a half or a quarter of `most` where larger blocks would leave fewer
/// than eight tasks. A few threads can share eight tasks evenly.
inline std::int64_t block_rows(std::int64_t most, std::int64_t rows, std::int64_t column_blocks) {
  for (const std::int64_t block : {most, most / 2})
    if (rows / block * column_blocks >= 8) return block;
  return most / 4;
}

}  // namespace penstock::ops::xsmm
