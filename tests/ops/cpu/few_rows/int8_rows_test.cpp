// Products of x, rounded to 8-bit integers, with GGUF's blocks: against f64 with the same rounding
// of x, each row independent of the others, and close to the products of the unrounded x. More than
// 16 rows are rounded to bf16.
#include "penstock/ops/cpu/few_rows/int8_rows.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <limits>

#include "tests/ops/finite_difference.h"
#include "tests/ops/product_units.h"
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

/// One SwiGLU expert whose matrices multiply rounded x.
struct OneExpert {
  static constexpr std::int64_t d = 256, f = 512;
  RandomRows gate = random_rows(RowType::q4_k, f, d, 7), up = random_rows(RowType::q6_k, f, d, 8),
             down = random_rows(RowType::q4_k, d, f, 9);

  at::Tensor run(const at::Tensor& x) const {
    StoredExperts experts{
        .width = d, .inner = f, .in = {gate.stored, up.stored}, .out = {down.stored}};
    for (auto* rows : {&experts.in[0], &experts.in[1], &experts.out[0]})
      rows->activations = Activations::int8;
    const auto owners = torch::arange(x.size(0));
    return ops::expert_ffn(x,
                           {.weight = torch::ones({x.size(0)}),
                            .token = owners,
                            .offsets = torch::tensor(std::vector<std::int64_t>{0, x.size(0)}),
                            .by_token = owners,
                            .token_offsets = torch::arange(x.size(0) + 1)},
                           experts, Activation::swiglu);
  }
};

TEST(Int8Rows, ExpertsRoundTheirInputAndWhatTheirActivationGives) {
  torch::manual_seed(5);
  const OneExpert expert;
  for (const std::int64_t tokens : {1, 3}) {
    const auto x = torch::randn({tokens, OneExpert::d});
    const auto y = expert.run(x);
    const auto x8 = rounded_in_groups(x);
    const auto h = at::silu(x8.mm(expert.gate.values.t())) * x8.mm(expert.up.values.t());
    // h differs in its last bits. Where h lies between two steps, its rounding may differ by one
    // step.
    EXPECT_LT(error_by_largest(y, rounded_in_groups(h).mm(expert.down.values.t())), 2e-3);
    const double of_rounding = error_by_largest(y, h.mm(expert.down.values.t()));
    EXPECT_GT(of_rounding, 2e-3);
    EXPECT_LT(of_rounding, 0.03);
  }
}

class ManyInt8Rows : public testing::WithProductUnit {};

at::Tensor in_bf16(const at::Tensor& x) {
  return x.to(torch::kFloat).to(torch::kBFloat16).to(torch::kDouble);
}

TEST_P(ManyInt8Rows, AreRoundedToBf16AsTheMatrixIs) {
  torch::manual_seed(7);
  for (const RowType type : kTypes) {
    const RandomRows w = random_rows(type, 37, 512, 11);
    const auto x = torch::randn({17, 512});
    const auto rounded = in_bf16(x).mm(in_bf16(w.values).t());
    EXPECT_LT(error_by_largest(ops::linear(x, int8_matrix(w, 512)), rounded), 1e-6);
    EXPECT_GT(error_by_largest(rounded, x.to(torch::kDouble).mm(w.values.t())), 1e-4);
  }
}

TEST_P(ManyInt8Rows, OfExpertsAreRoundedToBf16InEachLayer) {
  torch::manual_seed(8);
  const OneExpert expert;
  const auto x = torch::randn({17, OneExpert::d});
  const auto h = [&](const auto& in) {
    return at::silu(in(x).mm(in(expert.gate.values).t())) * in(x).mm(in(expert.up.values).t());
  };
  const auto as_it_is = [](const at::Tensor& t) { return t.to(torch::kDouble); };
  const auto rounded = in_bf16(h(in_bf16)).mm(in_bf16(expert.down.values).t());
  // Where h lies between two numbers of bf16, its rounding may differ.
  EXPECT_LT(error_by_largest(expert.run(x), rounded), 1e-3);
  EXPECT_GT(error_by_largest(rounded, h(as_it_is).mm(expert.down.values.t())), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Units, ManyInt8Rows, testing::kProductUnits, testing::unit_name);

/// Matrices that are not rounded for few rows, or not all, are not rounded for many rows.
TEST(Int8Rows, LeaveExactProductsExact) {
  torch::manual_seed(9);
  const RandomRows a = random_rows(RowType::q4_k, 5, 256, 12),
                   b = random_rows(RowType::q8_0, 7, 256, 13);
  StoredMatrix mixed{.depth = 256, .pieces = {a.stored, b.stored}};
  for (StoredRows& piece : mixed.pieces) piece.activations = Activations::int8;
  const auto x = torch::randn({17, 256});
  EXPECT_LT(relative_error(ops::linear(x, mixed),
                           x.to(torch::kDouble).mm(torch::cat({a.values, b.values}).t())),
            1e-6);
}

}  // namespace
}  // namespace penstock::ops::int8_rows_test
