// Products of x, rounded to 8-bit integers, with GGUF's blocks: against f64 with the same rounding
// of x, each row independent of the others, and close to the products of the unrounded x.
#include "penstock/ops/cpu/few_rows/int8_rows.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <limits>

#include "tests/ops/finite_difference.h"
#include "tests/ops/stored_rows.h"

namespace penstock::ops::int8_rows_test {
namespace {

using testing::error_by_largest;
using testing::random_rows;
using testing::RandomRows;
using testing::relative_error;

const std::vector<RowType> kTypes{RowType::q4_k, RowType::q6_k};

StoredMatrix int8_matrix(const RandomRows& rows, std::int64_t depth) {
  StoredRows stored = rows.stored;
  stored.activations = Activations::int8;
  return {.depth = depth, .pieces = {stored}};
}

/// x rounded as the header says, in f64: 127 steps from 0 to the largest number of each group of
/// 32.
at::Tensor rounded_in_groups(const at::Tensor& x) {
  const at::Tensor parts = x.to(torch::kDouble).reshape({x.size(0), -1, 32});
  const at::Tensor scale = parts.abs().amax(2, true) / 127;
  return (at::round(parts / scale) * scale).nan_to_num(0).reshape(x.sizes());
}

TEST(Int8Rows, MultiplyXRoundedInGroupsOf32) {
  torch::manual_seed(1);
  for (const RowType type : kTypes)
    for (const std::int64_t depth : {256, 768})
      for (const std::int64_t columns : {1, 3, 12, 37}) {
        const RandomRows w = random_rows(type, columns, depth, 2);
        const StoredMatrix matrix = int8_matrix(w, depth);
        for (const std::int64_t rows : {1, 2, 3, 16}) {
          const auto x = torch::randn({rows, depth}) * torch::rand({1, depth}).pow(4);
          const auto exact = rounded_in_groups(x).mm(w.values.t());
          EXPECT_LT(relative_error(ops::linear(x, matrix), exact), 2e-6)
              << describe(matrix) << ", " << rows << " rows";
        }
      }
}

TEST(Int8Rows, ARowsResultIsItsOwn) {
  torch::manual_seed(2);
  for (const RowType type : kTypes) {
    const RandomRows w = random_rows(type, 41, 512, 3);
    const StoredMatrix matrix = int8_matrix(w, 512);
    const auto x = torch::randn({16, 512});
    const auto all = ops::linear(x, matrix);
    for (const std::int64_t rows : {1, 2, 5})
      for (std::int64_t first = 0; first + rows <= 16; ++first)
        EXPECT_TRUE(
            ops::linear(x.narrow(0, first, rows), matrix).equal(all.narrow(0, first, rows)));
  }
}

/// Compares the implementations for processors with and without the instruction.
TEST(Int8Rows, HaveTheSameBitsHoweverTheyAreMultiplied) {
  torch::manual_seed(6);
  const std::int64_t depth = 768;
  const auto x = torch::randn({5, depth});
  cpu::Int8Rows rounded(5, depth);
  for (std::int64_t r = 0; r < 5; ++r) rounded.set(r, x.data_ptr<float>() + r * depth);
  for (const RowType type : kTypes) {
    const RandomRows w = random_rows(type, 13, depth, 10);
    std::vector<at::Tensor> results;
    for (const cpu::Int8Products multiply : cpu::int8_products(type)) {
      results.push_back(torch::empty({5, 13}));
      multiply({.x = rounded,
                .first_row = 0,
                .w = w.stored.data,
                .w_stride = row_bytes(type, depth),
                .y = results.back().data_ptr<float>(),
                .y_stride = 13},
               5, 13);
    }
    ASSERT_FALSE(results.empty());
    for (const at::Tensor& y : results) EXPECT_TRUE(y.equal(results[0])) << row_type_name(type);
    EXPECT_LT(relative_error(results.back(), rounded_in_groups(x).mm(w.values.t())), 2e-6);
  }
  EXPECT_TRUE(cpu::int8_products(RowType::bf16).empty());
}

TEST(Int8Rows, AreWithinTheirRoundingOfXAsItIs) {
  torch::manual_seed(3);
  for (const RowType type : kTypes) {
    const RandomRows w = random_rows(type, 64, 1024, 4);
    const auto x = torch::randn({4, 1024});
    // A step is about 3 / 127 of a standard deviation. A rounding's standard deviation is a step /
    // √12.
    const double error =
        relative_error(ops::linear(x, int8_matrix(w, 1024)), x.to(torch::kDouble).mm(w.values.t()));
    EXPECT_LT(error, 0.02);
    EXPECT_GT(error, 1e-4);  // x is rounded
  }
}

TEST(Int8Rows, OfZerosAreZeroAndOfNaNAreNaN) {
  for (const RowType type : kTypes) {
    const RandomRows w = random_rows(type, 5, 256, 5);
    const StoredMatrix matrix = int8_matrix(w, 256);
    EXPECT_TRUE(ops::linear(torch::zeros({2, 256}), matrix).eq(0).all().item<bool>());
    for (const float wrong : {NAN, std::numeric_limits<float>::infinity()}) {
      auto x = torch::ones({2, 256});
      x[1][77] = wrong;
      const auto y = ops::linear(x, matrix);
      EXPECT_TRUE(y[0].isfinite().all().item<bool>());
      EXPECT_TRUE(y[1].isnan().all().item<bool>());
    }
  }
}

TEST(Int8Rows, AreOfTypesThatGainByThemAlone) {
  torch::manual_seed(4);
  for (const RowType type : {RowType::f32, RowType::f16, RowType::bf16, RowType::q8_0}) {
    const RandomRows w = random_rows(type, 5, 64, 6);
    const auto x = torch::randn({2, 64});
    EXPECT_TRUE(ops::linear(x, int8_matrix(w, 64))
                    .equal(ops::linear(x, StoredMatrix{.depth = 64, .pieces = {w.stored}})));
  }
}

/// With few tokens, each layer of an expert rounds its input. With many tokens, no layer does.
TEST(Int8Rows, ExpertsRoundTheirInputAndWhatTheirActivationGives) {
  torch::manual_seed(5);
  const std::int64_t d = 256, f = 512;
  const RandomRows gate = random_rows(RowType::q4_k, f, d, 7),
                   up = random_rows(RowType::q6_k, f, d, 8),
                   down = random_rows(RowType::q4_k, d, f, 9);
  StoredExperts experts{
      .width = d, .inner = f, .in = {gate.stored, up.stored}, .out = {down.stored}};
  for (auto* rows : {&experts.in[0], &experts.in[1], &experts.out[0]})
    rows->activations = Activations::int8;
  const auto long_of = [](std::vector<std::int64_t> values) { return torch::tensor(values); };
  for (const std::int64_t tokens : {1, 3}) {
    const auto x = torch::randn({tokens, d});
    const auto owners = torch::arange(tokens), ends = torch::arange(tokens + 1);
    const auto y = ops::expert_ffn(x,
                                   {.weight = torch::ones({tokens}),
                                    .token = owners,
                                    .offsets = long_of({0, tokens}),
                                    .by_token = owners,
                                    .token_offsets = ends},
                                   experts, Activation::swiglu);
    const auto x8 = rounded_in_groups(x);
    const auto h = at::silu(x8.mm(gate.values.t())) * x8.mm(up.values.t());
    // h differs in its last bits. Where h lies between two steps, its rounding may differ by one
    // step.
    EXPECT_LT(error_by_largest(y, rounded_in_groups(h).mm(down.values.t())), 2e-3);
    const double of_rounding = error_by_largest(y, h.mm(down.values.t()));
    EXPECT_GT(of_rounding, 2e-3);
    EXPECT_LT(of_rounding, 0.03);
  }
}

}  // namespace
}  // namespace penstock::ops::int8_rows_test
