// Matrices of inference in the types of files: their rows lie where a file was mapped. What is
// computed of them is stored_matrix.h's; who maps files and finds rows in them is elsewhere
// (models/files/stored_model.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::ops {

/// The types: plain numbers, and GGUF's blocks of numbers with shared scales.
enum class RowType { f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k };

/// Numbers of a block, and its bytes: {256, 144} of Q4_K, {1, 2} of bf16.
struct RowBlock {
  std::int64_t numbers, bytes;
};
RowBlock row_block(RowType type);
std::string_view row_type_name(RowType type);
/// The bytes of a row of `depth` numbers. REQUIRES: whole blocks (asserted).
std::int64_t row_bytes(RowType type, std::int64_t depth);

/// The form of x in products of few rows: exact, or (for w in Q4_K or Q6_K) rounded to 8-bit
/// integers in groups of 32 numbers with a scale each, which is faster.
enum class Activations { f32, int8 };

/// Consecutive rows of one type. The owner of the memory must keep it alive.
struct StoredRows {
  RowType type = RowType::f32;
  std::int64_t rows = 0;
  const std::byte* data = nullptr;
  Activations activations = Activations::f32;
};

/// [rows, depth], its pieces one below another.
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
