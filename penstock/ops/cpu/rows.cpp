#include "penstock/ops/cpu/rows.h"

#include <algorithm>
#include <cstring>

#include "penstock/ops/cpu/vector_math.h"

namespace penstock::ops::cpu {
namespace {

/// Transposes a 16×16 block of 16 vectors by interleaving pairs of rows four times.
PENSTOCK_INLINE void transpose_16(const float* source, std::int64_t source_stride, float* out,
                                  std::int64_t out_stride) {
  using Vector = float __attribute__((vector_size(64), aligned(4), may_alias));
  using Index = int __attribute__((vector_size(64)));
  constexpr Index low{0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
  constexpr Index high{8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  Vector a[16], b[16];
  for (int i = 0; i < 16; ++i) a[i] = *reinterpret_cast<const Vector*>(source + i * source_stride);
  // Interleaving row i with row i+8 moves one bit of the row number into the column number.
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 8; ++i) {
      b[2 * i] = __builtin_shuffle(a[i], a[i + 8], low);
      b[2 * i + 1] = __builtin_shuffle(a[i], a[i + 8], high);
    }
    for (int i = 0; i < 8; ++i) {
      a[2 * i] = __builtin_shuffle(b[i], b[i + 8], low);
      a[2 * i + 1] = __builtin_shuffle(b[i], b[i + 8], high);
    }
  }
  for (int i = 0; i < 16; ++i) *reinterpret_cast<Vector*>(out + i * out_stride) = a[i];
}

}  // namespace

void gather_rows(std::int64_t count, std::int64_t filled, std::int64_t width, const float* source,
                 const std::int64_t* index, float* out) {
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(out + i * width, source + index[i] * width, width * sizeof(float));
  std::fill_n(out + count * width, (filled - count) * width, 0.0f);
}

PENSTOCK_PER_CPU void transpose(std::int64_t rows, std::int64_t columns, const float* source,
                                std::int64_t source_stride, float* out, std::int64_t out_stride) {
  const std::int64_t full_rows = rows / 16 * 16, full_columns = columns / 16 * 16;
  for (std::int64_t i = 0; i < full_rows; i += 16)
    for (std::int64_t j = 0; j < full_columns; j += 16)
      transpose_16(source + i * source_stride + j, source_stride, out + j * out_stride + i,
                   out_stride);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = i < full_rows ? full_columns : 0; j < columns; ++j)
      std::memcpy(out + j * out_stride + i, source + i * source_stride + j, sizeof(float));
}

PENSTOCK_PER_CPU void scaled_row(std::int64_t width, float scale, const float* row, bool add,
                                 float* out) {
  if (add) {
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) out[j] += scale * row[j];
  } else {
#pragma omp simd
    for (std::int64_t j = 0; j < width; ++j) out[j] = scale * row[j];
  }
}

PENSTOCK_PER_CPU float dot(std::int64_t width, const float* a, const float* b) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < width; ++j) sum += a[j] * b[j];
  return sum;
}

}  // namespace penstock::ops::cpu
