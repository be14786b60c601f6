// Functions on rows of floats: gather, transposition, scaled sums.
#pragma once

#include <cstdint>

namespace penstock::ops::cpu {

/// out[i] = source[index[i]] for i < count, 0 for count ≤ i < filled; rows of `width`.
void gather_rows(std::int64_t count, std::int64_t filled, std::int64_t width, const float* source,
                 const std::int64_t* index, float* out);

/// out[j, i] = source[i, j] for source [rows, columns], both with a row stride. The elements may be
/// any four-byte values, because the function only moves bytes.
void transpose(std::int64_t rows, std::int64_t columns, const float* source,
               std::int64_t source_stride, float* out, std::int64_t out_stride);

/// out ← scale·row, or out ← out + scale·row when `add`.
void scaled_row(std::int64_t width, float scale, const float* row, bool add, float* out);

/// a·b.
float dot(std::int64_t width, const float* a, const float* b);

}  // namespace penstock::ops::cpu
