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

/// Plain numbers, and GGUF's blocks of numbers that share scales.
enum class RowType { f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k };

/// Numbers of a block, and its bytes: {256, 144} of Q4_K, {1, 2} of bf16.
struct RowBlock {
  std::int64_t numbers, bytes;
};
RowBlock row_block(RowType type);
std::string_view row_type_name(RowType type);
/// Bytes of a row of that many numbers. REQUIRES: whole blocks (asserted).
std::int64_t row_bytes(RowType type, std::int64_t depth);

/// How products of few rows see x: as it is, or, where w is Q4_K or Q6_K, rounded to 8-bit integers
/// in groups of 32 numbers with a scale each, which is faster.
enum class Activations { f32, int8 };

/// Rows of one type, one after another. Whose memory it is keeps it alive.
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
  /// Of the weights as they are stored.
  std::int64_t bytes() const;
};
std::string describe(const StoredMatrix& matrix);
double bytes_of(const StoredMatrix& matrix);

}  // namespace penstock::ops
