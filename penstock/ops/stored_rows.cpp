#include "penstock/ops/stored_rows.h"

#include "penstock/base/error.h"
#include "penstock/base/joined.h"

namespace penstock::ops {

RowBlock row_block(RowType type) {
  switch (type) {
    case RowType::f32:
      return {1, 4};
    case RowType::f16:
    case RowType::bf16:
      return {1, 2};
    case RowType::q8_0:
      return {32, 34};
    case RowType::q4_0:
      return {32, 18};
    case RowType::q4_1:
      return {32, 20};
    case RowType::q5_0:
      return {32, 22};
    case RowType::q5_1:
      return {32, 24};
    case RowType::q4_k:
      return {256, 144};
    case RowType::q5_k:
      return {256, 176};
    case RowType::q6_k:
      return {256, 210};
  }
  PENSTOCK_ASSERT(false, "no such type of rows");
}

std::string_view row_type_name(RowType type) {
  switch (type) {
    case RowType::f32:
      return "F32";
    case RowType::f16:
      return "F16";
    case RowType::bf16:
      return "BF16";
    case RowType::q8_0:
      return "Q8_0";
    case RowType::q4_0:
      return "Q4_0";
    case RowType::q4_1:
      return "Q4_1";
    case RowType::q5_0:
      return "Q5_0";
    case RowType::q5_1:
      return "Q5_1";
    case RowType::q4_k:
      return "Q4_K";
    case RowType::q5_k:
      return "Q5_K";
    case RowType::q6_k:
      return "Q6_K";
  }
  PENSTOCK_ASSERT(false, "no such type of rows");
}

std::int64_t row_bytes(RowType type, std::int64_t depth) {
  const RowBlock block = row_block(type);
  PENSTOCK_ASSERT(depth % block.numbers == 0);
  return depth / block.numbers * block.bytes;
}

std::int64_t StoredMatrix::rows() const {
  std::int64_t out = 0;
  for (const StoredRows& piece : pieces) out += piece.rows;
  return out;
}

std::int64_t StoredMatrix::bytes() const {
  std::int64_t out = 0;
  for (const StoredRows& piece : pieces) out += piece.rows * row_bytes(piece.type, depth);
  return out;
}

std::string describe(const StoredMatrix& matrix) {
  const auto type = [](const StoredRows& piece) { return row_type_name(piece.type); };
  return concat(joined(matrix.pieces, "+", type), "[", matrix.rows(), ", ", matrix.depth, "]");
}

double bytes_of(const StoredMatrix& matrix) { return static_cast<double>(matrix.bytes()); }

}  // namespace penstock::ops
