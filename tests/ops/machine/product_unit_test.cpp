// The units of bf16 products: each unit and its emulation give the same bits over odd shapes, and
// each unit adds up in its own order.
#include "penstock/ops/machine/product_unit.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/base/fields.h"
#include "penstock/ops/cpu/bf16/product.h"
#include "tests/ops/product_units.h"

namespace penstock::ops::product_unit_test {
namespace {

using bf16::kPanel;
using bf16::Pair;
using bf16::PairProduct;

Pair pair(float first, float second) {
  const auto half = [](float x) { return std::bit_cast<std::uint32_t>(x) >> 16; };
  return half(first) | half(second) << 16;
}
float half(Pair pair, bool second) {
  return std::bit_cast<float>(second ? pair & 0xffff0000u : pair << 16);
}

/// A product with its operands and its result. Elements of the memory outside them are NaN.
struct Case {
  PairProduct shape;
  std::vector<std::uint32_t> a, b;
  std::vector<float> c;

  Case(std::int64_t rows, std::int64_t columns, std::int64_t pairs, bool panels, bool accumulate)
      : shape{.rows = rows,
              .columns = columns,
              .pairs = pairs,
              .a_row = panels ? 0 : pairs + 3,
              .a_panel = pairs * kPanel,
              .b_panel = pairs * kPanel,
              .c_row = columns + 2,
              .accumulate = accumulate} {
    std::mt19937 bits(static_cast<unsigned>(rows + 1000 * columns + pairs));
    std::normal_distribution<float> normal;
    const auto draw = [&] { return pair(normal(bits), normal(bits)); };
    const auto whole = [](std::int64_t n) { return (n + kPanel - 1) / kPanel; };
    constexpr std::uint32_t kNan = 0x7fc07fc0;
    a.assign(static_cast<std::size_t>(panels ? whole(rows) * shape.a_panel : rows * shape.a_row),
             kNan);
    b.assign(static_cast<std::size_t>(whole(columns) * shape.b_panel), kNan);
    c.assign(static_cast<std::size_t>(rows * shape.c_row), NAN);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t k = 0; k < pairs; ++k) a[a_at(i, k)] = draw();
      for (std::int64_t j = 0; j < columns; ++j) c[c_at(i, j)] = normal(bits);
    }
    for (std::int64_t j = 0; j < columns; ++j)
      for (std::int64_t k = 0; k < pairs; ++k) b[b_at(j, k)] = draw();
  }

  std::size_t a_at(std::int64_t i, std::int64_t k) const {
    return static_cast<std::size_t>(shape.a_row > 0 ? i * shape.a_row + k : in_panel(i, k));
  }
  std::size_t b_at(std::int64_t j, std::int64_t k) const {
    return static_cast<std::size_t>(in_panel(j, k));
  }
  std::size_t c_at(std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(i * shape.c_row + j);
  }

  /// The result c of the product on `unit`.
  std::vector<float> by(ProductUnit unit) const {
    choose_product_unit(unit);
    std::vector<float> out = c;
    bf16::multiply(shape, a.data(), b.data(), out.data());
    choose_product_unit(std::nullopt);
    return out;
  }

 private:
  std::int64_t in_panel(std::int64_t column, std::int64_t k) const {
    return column / kPanel * shape.b_panel + k * kPanel + column % kPanel;
  }
};

std::vector<Case> odd_cases() {
  std::vector<Case> out;
  for (const bool panels : {false, true})
    for (const auto& [rows, columns, pairs] :
         std::vector<std::array<std::int64_t, 3>>{{1, 1, 1},
                                                  {16, 16, 16},
                                                  {17, 31, 15},
                                                  {33, 65, 17},
                                                  {64, 128, 64},
                                                  {70, 48, 8},
                                                  {5, 100, 40},
                                                  {47, 80, 259},
                                                  {130, 33, 530},
                                                  {32, 64, 256},
                                                  {95, 130, 33},
                                                  {3, 5, 0}})
      for (const bool accumulate : {false, true})
        out.emplace_back(rows, columns, pairs, panels, accumulate);
  return out;
}

std::vector<std::uint32_t> bits_of(const std::vector<float>& x) {
  std::vector<std::uint32_t> out;
  for (const float value : x) out.push_back(std::bit_cast<std::uint32_t>(value));
  return out;
}

void expect_bits_of_emulation(ProductUnit unit, ProductUnit emulation) {
  if (!available(unit)) GTEST_SKIP() << "this processor has no " << word(unit);
  for (const Case& c : odd_cases()) {
    SCOPED_TRACE(concat(c.shape.rows, " x ", c.shape.columns, " x ", c.shape.pairs, " pairs",
                        c.shape.a_row > 0 ? "" : ", in panels", c.shape.accumulate ? ", +=" : ""));
    EXPECT_EQ(bits_of(c.by(unit)), bits_of(c.by(emulation)));
  }
}

TEST(ProductUnits, Avx512HasTheBitsOfItsEmulation) {
  expect_bits_of_emulation(ProductUnit::avx512, ProductUnit::emulated_avx512);
}
TEST(ProductUnits, AmxHasTheBitsOfItsEmulation) {
  expect_bits_of_emulation(ProductUnit::amx, ProductUnit::emulated_amx);
}

TEST(ProductUnits, TheChosenOneComputesAndTheFasterIsTheDefault) {
  const auto at_start = product_unit();
  EXPECT_EQ(at_start, available(ProductUnit::amx)      ? std::optional(ProductUnit::amx)
                      : available(ProductUnit::avx512) ? std::optional(ProductUnit::avx512)
                                                       : std::nullopt);
  choose_product_unit(ProductUnit::emulated_amx);
  EXPECT_EQ(product_unit(), ProductUnit::emulated_amx);
  choose_product_unit(std::nullopt);
  EXPECT_EQ(product_unit(), at_start);
}

class EachUnit : public penstock::testing::WithProductUnit {};
INSTANTIATE_TEST_SUITE_P(By, EachUnit, penstock::testing::kProductUnits,
                         penstock::testing::unit_name);

TEST_P(EachUnit, IsWithinTheErrorOfF32Sums) {
  for (const Case& c : odd_cases()) {
    const std::vector<float> found = c.by(GetParam());
    const auto n = static_cast<double>(2 * c.shape.pairs + 1);
    for (std::int64_t i = 0; i < c.shape.rows; ++i)
      for (std::int64_t j = 0; j < c.shape.columns; ++j) {
        double exact = c.shape.accumulate ? c.c[c.c_at(i, j)] : 0, sizes = std::abs(exact);
        for (std::int64_t k = 0; k < c.shape.pairs; ++k)
          for (const bool second : {false, true}) {
            const double term = static_cast<double>(half(c.a[c.a_at(i, k)], second)) *
                                half(c.b[c.b_at(j, k)], second);
            exact += term;
            sizes += std::abs(term);
          }
        ASSERT_LE(std::abs(found[c.c_at(i, j)] - exact), n * 0x1p-24 * sizes)
            << i << ", " << j << " of " << c.shape.rows << " x " << c.shape.columns;
      }
  }
}

/// start + the product of one row and one column.
float sum(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b, float start) {
  std::vector<std::uint32_t> panel(a.size() * kPanel);
  for (std::size_t k = 0; k < b.size(); ++k) panel[k * kPanel] = b[k];
  bf16::multiply({.rows = 1,
                  .columns = 1,
                  .pairs = std::ssize(a),
                  .a_row = std::ssize(a),
                  .b_panel = std::ssize(panel),
                  .c_row = 1,
                  .accumulate = true},
                 a.data(), panel.data(), &start);
  return start;
}
float sum(Pair a, Pair b, float start) {
  return sum(std::vector<std::uint32_t>{a}, std::vector<std::uint32_t>{b}, start);
}

bool adds_as_avx512(ProductUnit unit) {
  return unit == ProductUnit::avx512 || unit == ProductUnit::emulated_avx512;
}

TEST_P(EachUnit, AddsUpInItsOrder) {
  if (adds_as_avx512(GetParam())) {
    // A product is added before it is rounded. 2^128 is infinite in f32, and 2^128 − 2^127 is not.
    EXPECT_EQ(sum(pair(0x1p100f, 0), pair(0x1p28f, 0), -0x1p127f), 0x1p127f);
    EXPECT_EQ(sum(pair(0, 0x1p100f), pair(0, 0x1p28f), -0x1p127f), 0x1p127f);
    // 2^-127 is not a normal number, and 1.5·2^-126 is.
    EXPECT_EQ(sum(pair(0x1p-100f, 0), pair(0x1p-27f, 0), 0x1p-126f), 0x1.8p-126f);
    // The second product of a pair is added first: 2^24 + 1 is not an f32 number, and 2^24 − 2^24 +
    // 1 is.
    EXPECT_EQ(sum(pair(1, 0x1p24f), pair(1, -1), 0x1p24f), 1);
    EXPECT_EQ(sum(pair(0x1p24f, 1), pair(-1, 1), 0x1p24f), 0);
    return;
  }
  // The products are added up from zero, and their sum is added to the result. 2^128 is already
  // infinite in that sum, and 2^-127 is zero.
  EXPECT_EQ(sum(pair(0x1p100f, 0), pair(0x1p28f, 0), -0x1p127f), HUGE_VALF);
  EXPECT_EQ(sum(pair(0x1p-100f, 0), pair(0x1p-27f, 0), 0x1p-126f), 0x1p-126f);
  // There is one sum of the pairs' first products and one of their second products. 2^24 + 1 − 2^24
  // is 0 within one sum. It is 1 if the 1 is in the other sum.
  const auto in_order = [](float x, float y, float z) {
    return sum({pair(x, 0), pair(y, 0), pair(z, 0)}, std::vector<std::uint32_t>(3, pair(1, 1)), 0);
  };
  EXPECT_EQ(in_order(0x1p24f, 1, -0x1p24f), 0);
  EXPECT_EQ(in_order(0x1p24f, -0x1p24f, 1), 1);
  EXPECT_EQ(sum({pair(0x1p24f, 1), pair(-0x1p24f, 0)}, {pair(1, 1), pair(1, 1)}, 0), 1);
  // Each sum covers 16 pairs. The 1 of the 17th pair is added to the result, and not to the sum
  // from zero.
  std::vector<std::uint32_t> ones(17, pair(1, 1)), x(17, pair(0, 0));
  x[0] = pair(1, 0);
  x[16] = pair(1, 0);
  EXPECT_EQ(sum(x, ones, 0x1p24f), 0x1p24f);
  x[15] = x[16];
  x[16] = pair(0, 0);
  EXPECT_EQ(sum(x, ones, 0x1p24f), 0x1p24f + 2);
}

}  // namespace
}  // namespace penstock::ops::product_unit_test
