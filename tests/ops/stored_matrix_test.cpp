// Stored matrices: their numbers against the formats' descriptions, products with few rows against
// the f32 operator bit for bit, and products with many rows against f64.
#include "penstock/ops/stored_matrix.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/base/error.h"
#include "penstock/ops/dispatch.h"
#include "tests/ops/finite_difference.h"
#include "tests/ops/stored_rows.h"

namespace penstock::ops::stored_matrix_test {
namespace {

using testing::kRowTypes;
using testing::random_rows;
using testing::RandomRows;

/// A depth of whole blocks of the type, or an odd depth for a type without blocks.
std::int64_t depth_of(RowType type) { return row_block(type).numbers == 1 ? 37 : 768; }

TEST(StoredMatrix, ExpandsToWhatTheFormatsSay) {
  for (const RowType type : kRowTypes) {
    const RandomRows rows = random_rows(type, 5, depth_of(type), 1);
    const StoredMatrix matrix{.depth = depth_of(type), .pieces = {rows.stored}};
    EXPECT_TRUE(expand(matrix, 0, 5).equal(rows.values.to(torch::kFloat))) << describe(matrix);
    EXPECT_TRUE(expand(matrix, 2, 2).equal(rows.values.narrow(0, 2, 2).to(torch::kFloat)));
    EXPECT_EQ(matrix.bytes(), static_cast<std::int64_t>(rows.bytes.size()) - 1);
  }
}

TEST(StoredMatrix, FewRowsHaveTheBitsOfTheNumbersInF32) {
  torch::manual_seed(2);
  for (const RowType type : kRowTypes)
    for (const std::int64_t columns : {1, 3, 37}) {
      const std::int64_t depth = depth_of(type);
      const RandomRows first = random_rows(type, columns, depth, 3),
                       second = random_rows(type, 6, depth, 4);
      const StoredMatrix matrix{.depth = depth, .pieces = {first.stored, second.stored}};
      const auto w = torch::cat({first.values, second.values}).to(torch::kFloat);
      const auto b = torch::randn({columns + 6});
      for (const std::int64_t rows : {1, 2, 3, 5, 6, 7, 10, 12, 16}) {
        const auto x = torch::randn({rows, depth});
        reset_dispatch_counts();
        EXPECT_TRUE(ops::linear(x, matrix, b).equal(ops::linear(x, w, b)))
            << describe(matrix) << ", " << rows << " rows";
        EXPECT_EQ(dispatch_counts().at("stored_linear/rows"), 1);
      }
    }
}

TEST(StoredMatrix, PiecesOfSeveralTypesStandBelowEachOther) {
  torch::manual_seed(3);
  StoredMatrix matrix{.depth = 256};
  std::vector<RandomRows> parts;
  for (const RowType type : kRowTypes) parts.push_back(random_rows(type, 7, 256, 5));
  std::vector<at::Tensor> values;
  for (const RandomRows& part : parts) {
    matrix.pieces.push_back(part.stored);
    values.push_back(part.values);
  }
  const auto w = torch::cat(values).to(torch::kFloat);
  const auto x = torch::randn({2, 3, 256});
  EXPECT_TRUE(ops::linear(x, matrix).equal(ops::linear(x, w)));
  EXPECT_TRUE(expand(matrix, 5, 20).equal(w.narrow(0, 5, 20)));
}

TEST(StoredMatrix, ManyRowsAgreeWithF64) {
  torch::manual_seed(4);
  for (const RowType type : kRowTypes) {
    const RandomRows rows = random_rows(type, 300, 256, 6);
    const StoredMatrix matrix{.depth = 256, .pieces = {rows.stored}};
    const auto x = torch::randn({33, 256}), b = torch::randn({300});
    reset_dispatch_counts();
    const auto y = ops::linear(x, matrix, b);
    EXPECT_EQ(dispatch_counts().at("stored_linear/expand"), 1);
    const auto exact = x.to(torch::kDouble).mm(rows.values.t()) + b;
    EXPECT_LT(testing::relative_error(y, exact), 1e-5) << describe(matrix);
  }
}

TEST(StoredMatrix, ManyRowsOfAWideMatrixGoByInGroups) {
  torch::manual_seed(5);
  const RandomRows rows = random_rows(RowType::bf16, 2500, 512, 7);  // more than 2^20 numbers
  const StoredMatrix matrix{.depth = 512, .pieces = {rows.stored}};
  const auto x = torch::randn({17, 512});
  const auto exact = x.to(torch::kDouble).mm(rows.values.t());
  EXPECT_LT(testing::relative_error(ops::linear(x, matrix), exact), 1e-5);
  const auto targets = torch::randint(0, 2500, {17}, torch::kLong);
  const auto losses = linear_cross_entropy_rows(x / 16, matrix, targets);
  const auto log = (exact / 16).log_softmax(1);
  EXPECT_LT(testing::relative_error(losses, -log.gather(1, targets.unsqueeze(1)).squeeze(1)), 1e-5);
}

TEST(StoredMatrix, EmbedsRowsAndRefusesIdsThatItLacks) {
  for (const RowType type : kRowTypes) {
    const RandomRows rows = random_rows(type, 9, depth_of(type), 8);
    const StoredMatrix table{.depth = depth_of(type), .pieces = {rows.stored}};
    const auto ids = torch::tensor({{8, 0}, {3, 3}}, torch::kLong);
    EXPECT_TRUE(
        ops::embedding(table, ids).equal(ops::embedding(rows.values.to(torch::kFloat), ids)));
    EXPECT_THROW(ops::embedding(table, torch::tensor({9}, torch::kLong)), Error);
    EXPECT_THROW(ops::embedding(table, torch::tensor({-1}, torch::kLong)), Error);
  }
}

TEST(StoredMatrix, RefusesAnotherWidth) {
  const RandomRows rows = random_rows(RowType::q8_0, 4, 64, 9);
  const StoredMatrix matrix{.depth = 64, .pieces = {rows.stored}};
  EXPECT_THROW(ops::linear(torch::zeros({2, 32}), matrix), Error);
  EXPECT_THROW(ops::linear(torch::zeros({2, 64}, torch::kDouble), matrix), Error);
}

}  // namespace
}  // namespace penstock::ops::stored_matrix_test
