// fp32 matrix products by oneDNN with cached primitives. No other file of the project includes
// oneDNN, so the differences between its versions 2 and 3 stay in matmul.cpp.
#pragma once

#include <cstdint>

namespace penstock::ops::onednn {

/// Whether this build has oneDNN.
bool built();

/// A matrix in memory: element (i, j) at data[i·row_stride + j·column_stride].
struct Matrix {
  float* data;
  std::int64_t rows, columns;
  std::int64_t row_stride, column_stride;

  Matrix transposed() const { return {data, columns, rows, column_stride, row_stride}; }
};

/// c = a·b, or a·b + bias on every row; with `accumulate`, c += the result instead.
/// REQUIRES: a [m, k], b [k, n], c [m, n]; bias null or n values. Any of m, n, k may be 0; one
/// stride of each matrix is 1.
/// Deterministic for a fixed thread count. Thread-safe. Throws Error when oneDNN does.
void matmul(const Matrix& a, const Matrix& b, const float* bias, const Matrix& c,
            bool accumulate = false);

}  // namespace penstock::ops::onednn
