// Moving rows of floats: gather, panels of a weight, sums over a token's assignments.
#pragma once

#include <cstdint>

namespace penstock::ops::cpu {

/// out[i] = source[index[i]], rows of `width`.
void gather_rows(std::int64_t count, std::int64_t width, const float* source,
                 const std::int64_t* index, float* out);

/// out[j, i] = source[i, j] for source [rows, columns] with a row stride; out is dense.
void transpose(std::int64_t rows, std::int64_t columns, const float* source,
               std::int64_t source_stride, float* out);

/// out[i, j] = source[i, j]; out is dense.
void copy_block(std::int64_t rows, std::int64_t columns, const float* source,
                std::int64_t source_stride, float* out);

/// out ← scale·row, or out ← out + scale·row when `add`.
void scaled_row(std::int64_t width, float scale, const float* row, bool add, float* out);

}  // namespace penstock::ops::cpu
