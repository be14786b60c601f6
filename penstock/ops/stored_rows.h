// Matrices for inference in the number types of files. Their rows stay in the memory to which a
// file was mapped. stored_matrix.h computes with them. models/files/stored_model.h maps files and
// finds the rows in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::ops {

/// The number types: plain numbers, and GGUF's blocks of numbers with shared scales.
enum class RowType { f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k };

/// The count of numbers in a block, and the block's bytes: {256, 144} for Q4_K, {1, 2} for bf16.
struct RowBlock {
  std::int64_t numbers, bytes;
};
RowBlock row_block(RowType type);
std::string_view row_type_name(RowType type);
/// The bytes of a row of `depth` numbers. REQUIRES: the row is whole blocks (asserted).
std::int64_t row_bytes(RowType type, std::int64_t depth);

/// The form of x in products. f32: exact. int8, for w in Q4_K or Q6_K: for at most 16 rows x is
/// rounded to 8-bit integers in groups of 32 numbers with one scale each, which is faster. For more
/// rows, x and w are rounded to bf16 if the processor multiplies bf16, which loses less than 8-bit
/// integers do.
enum class Activations { f32, int8 };

/// Consecutive rows of one type. The owner of the memory must keep it alive.
struct StoredRows {
  RowType type = RowType::f32;
  std::int64_t rows = 0;
  const std::byte* data = nullptr;
  Activations activations = Activations::f32;
};

/// A matrix [rows, depth]. Its rows are those of the pieces, in their order.
struct StoredMatrix {
  std::int64_t depth = 0;
  std::vector<StoredRows> pieces;
  bool empty() const { return pieces.empty(); }
  std::int64_t rows() const;
  /// The bytes of the stored weights.
  std::int64_t bytes() const;
};
std::string describe(const StoredMatrix& matrix);
double bytes_of(const StoredMatrix& matrix);

}  // namespace penstock::ops
