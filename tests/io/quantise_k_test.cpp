// The choice of K blocks for given numbers. blocks_test.cpp tests the numbers that blocks hold.
#include "penstock/io/quantise_k.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/io/k_blocks.h"

namespace penstock {
namespace {

using Quantise = void (*)(std::span<const float>, std::span<std::byte>);
using QuantiseWeighted = void (*)(std::span<const float>, std::span<const float>,
                                  std::span<std::byte>);
using Dequantise = void (*)(std::span<const std::byte>, std::span<float>);

struct KType {
  const char* name;
  std::size_t bytes;
  Quantise quantise;
  QuantiseWeighted weighted;
  Dequantise dequantise;
};
const KType kQ4K = {"Q4_K", sizeof(Q4KBlock), quantise_q4_k, quantise_q4_k, dequantise_q4_k};
const KType kQ6K = {"Q6_K", sizeof(Q6KBlock), quantise_q6_k, quantise_q6_k, dequantise_q6_k};

/// @param weights  empty: the fit has no weights
std::vector<std::byte> blocks_of(const KType& type, const std::vector<float>& values,
                                 const std::vector<float>& weights = {}) {
  std::vector<std::byte> out(values.size() / kKBlock * type.bytes);
  if (weights.empty())
    type.quantise(values, out);
  else
    type.weighted(values, weights, out);
  return out;
}

std::vector<float> rounded(const KType& type, const std::vector<float>& values,
                           const std::vector<float>& weights = {}) {
  std::vector<float> out(values.size());
  type.dequantise(blocks_of(type, values, weights), out);
  return out;
}

double squared_error(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return sum;
}

std::vector<float> drawn(double mean, double deviation, std::size_t blocks) {
  std::mt19937 generator(5);
  std::normal_distribution<float> normal(static_cast<float>(mean), static_cast<float>(deviation));
  std::vector<float> out(blocks * kKBlock);
  for (float& x : out) x = normal(generator);
  return out;
}

/// The squared error of rounding each part of `n` numbers to `steps` even steps, from the part's
/// least number, or 0, to its largest. The scales are not rounded.
double even_steps_error(const std::vector<float>& values, std::size_t n, int steps) {
  std::vector<float> out;
  for (std::size_t begin = 0; begin < values.size(); begin += n) {
    const auto [low, high] = std::minmax_element(values.begin() + std::ptrdiff_t(begin),
                                                 values.begin() + std::ptrdiff_t(begin + n));
    const float from = std::min(*low, 0.0f), step = (*high - from) / static_cast<float>(steps);
    for (std::size_t i = begin; i < begin + n; ++i)
      out.push_back(from + step * std::round((values[i] - from) / step));
  }
  return squared_error(values, out);
}

TEST(QuantiseK, IsNearerThanEvenSteps) {
  for (const double mean : {0.0, 0.05}) {
    const std::vector<float> values = drawn(mean, 0.02, 64);
    const double even = even_steps_error(values, kKPart, 15);
    EXPECT_LT(squared_error(values, rounded(kQ4K, values)), 0.9 * even) << mean;
  }
  // 64 even steps for each part of 16 would span the part's whole range. Q6_K's steps are symmetric
  // around 0.
  const std::vector<float> values = drawn(0, 0.02, 64);
  const double q6 = squared_error(values, rounded(kQ6K, values));
  EXPECT_LT(q6, 0.08 * squared_error(values, rounded(kQ4K, values)));
}

/// In every part, the best pair of integers (scale, minimum) is little better than the chosen pair.
TEST(QuantiseK, ChosenScalesAreNearTheBestOfAll) {
  const std::vector<float> values = drawn(0.01, 0.02, 1);
  std::vector<std::byte> bytes(sizeof(Q4KBlock));
  quantise_q4_k(values, bytes);
  Q4KBlock block;
  std::memcpy(&block, bytes.data(), sizeof block);
  const std::vector<float> ours = rounded(kQ4K, values);
  const KPartScales zero = {};
  Q4KBlock unit = block;  // with part scales of 1, codes of 1 show the block's scales
  KPartScales ones = zero;
  ones.scale.fill(1);
  unit.parts = pack_scales(ones);
  unit.codes.fill(0x11);
  std::vector<float> out(kKBlock);
  dequantise_q4_k(std::as_bytes(std::span(&unit, 1)), out);
  const double scale = out[0];
  ones = zero;
  ones.minimum.fill(1);
  unit.parts = pack_scales(ones);
  dequantise_q4_k(std::as_bytes(std::span(&unit, 1)), out);
  const double minimum = -out[0];
  for (std::size_t p = 0; p < kKBlock / kKPart; ++p) {
    double chosen = 0, best = std::numeric_limits<double>::infinity();
    for (std::size_t i = p * kKPart; i < (p + 1) * kKPart; ++i)
      chosen += std::pow(double{values[i]} - double{ours[i]}, 2);
    for (int s = 1; s < 64; ++s)
      for (int m = 0; m < 64; ++m) {
        double error = 0;
        for (std::size_t i = p * kKPart; i < (p + 1) * kKPart; ++i) {
          const double q = std::clamp(std::round((values[i] + minimum * m) / (scale * s)), 0., 15.);
          error += std::pow(scale * s * q - minimum * m - values[i], 2);
        }
        best = std::min(best, error);
      }
    EXPECT_LE(best, chosen * (1 + 1e-6)) << p;
    EXPECT_LT(chosen, 1.2 * best) << p;
  }
}

TEST(QuantiseK, EdgesOfBlocks) {
  for (const KType& type : {kQ4K, kQ6K}) {
    std::vector<float> values(kKBlock, 0.0f);
    EXPECT_EQ(rounded(type, values), values) << type.name;
    for (const float sign : {1.0f, -1.0f}) {  // the same number everywhere
      std::fill(values.begin(), values.end(), sign * 0.75f);
      for (const float x : rounded(type, values)) EXPECT_NEAR(x, sign * 0.75f, 4e-3f) << type.name;
    }
    std::fill(values.begin(), values.end(), 0.0f);
    values[200] = -3.0f;  // only one part has a number other than 0
    const auto back = rounded(type, values);
    EXPECT_NEAR(back[200], -3.0f, 0.01f) << type.name;
    EXPECT_EQ(std::ranges::count(back, 0.0f), std::ptrdiff_t{kKBlock - 1}) << type.name;
    std::vector<std::byte> blocks(type.bytes);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e10f}) {
      values[5] = bad;
      EXPECT_THROW(type.quantise(values, blocks), Error) << type.name << ' ' << bad;
    }
    values.assign(kKBlock, 1e-12f);  // too small for the scales: rounded to zero
    for (const float x : rounded(type, values)) EXPECT_EQ(x, 0.0f) << type.name;
  }
}

/// Numbers whose reciprocals overflow f32 become 0. No operation gives a NaN on the way, which the
/// processor would record as an invalid operation.
TEST(QuantiseK, NumbersNearTheLeastOfF32) {
  for (const KType& type : {kQ4K, kQ6K})
    for (const float least :
         {std::numeric_limits<float>::denorm_min(), 1e-40f, 1e-38f, 4e-38f, 9e-38f})
      for (const bool alone : {true, false}) {
        std::vector<float> values(kKBlock);
        for (std::size_t i = 0; i < kKBlock; i += 4) {
          values[i + 1] = least;
          values[i + 2] = -least;
          values[i + 3] = least / 2;
        }
        if (!alone) values[200] = -3.0f;
        const std::vector<float> weights(kKBlock, 2.0f);
        std::feclearexcept(FE_INVALID);
        auto back = rounded(type, values);
        const auto weighted = rounded(type, values, weights);
        EXPECT_EQ(std::fetestexcept(FE_INVALID), 0) << type.name << ' ' << least;
        EXPECT_EQ(weighted, back) << type.name << ' ' << least;
        if (!alone) {
          EXPECT_NEAR(back[200], -3.0f, 0.01f) << type.name << ' ' << least;
          back[200] = 0;
        }
        EXPECT_EQ(back, std::vector<float>(kKBlock, 0.0f)) << type.name << ' ' << least;
      }
}

/// Weights of columns, distributed like those of inputs: e^(spread · normal), drawn for each
/// number.
std::vector<float> skewed_weights(double spread, std::size_t blocks) {
  std::vector<float> out = drawn(0, spread, blocks);
  for (float& w : out) w = std::exp(w);
  return out;
}

TEST(QuantiseK, WeightsNeverMakeTheirOwnErrorLarger) {
  constexpr std::size_t kBlocks = 64;
  for (const KType& type : {kQ4K, kQ6K})
    for (const double mean : {0.0, 0.05})
      for (const double spread : {0.3, 1.0, 3.0, 8.0}) {
        std::vector<float> values = drawn(mean, 0.02, kBlocks);
        std::ranges::reverse(values);  // uncorrelated with the weights, which have the same draws
        const std::vector<float> weights = skewed_weights(spread, kBlocks);
        const auto with = rounded(type, values, weights), without = rounded(type, values);
        double all_with = 0, all_without = 0;
        for (std::size_t b = 0; b < kBlocks; ++b) {
          double own_with = 0, own_without = 0;
          for (std::size_t i = b * kKBlock; i < (b + 1) * kKBlock; ++i) {
            own_with += weights[i] * std::pow(double{with[i]} - double{values[i]}, 2);
            own_without += weights[i] * std::pow(double{without[i]} - double{values[i]}, 2);
          }
          EXPECT_LE(own_with, own_without) << type.name << ' ' << spread << ' ' << b;
          all_with += own_with;
          all_without += own_without;
        }
        const double share = all_with / all_without;
        EXPECT_LT(share, spread < 1 ? 1.0 : spread < 3 ? 0.93 : 0.5) << type.name << ' ' << spread;
      }
}

TEST(QuantiseK, EqualWeightsAreNone) {
  for (const KType& type : {kQ4K, kQ6K})
    for (const double mean : {0.0, 0.05}) {
      const std::vector<float> values = drawn(mean, 0.02, 64), ones(values.size(), 1.0f);
      EXPECT_TRUE(blocks_of(type, values, ones) == blocks_of(type, values)) << type.name;
    }
}

/// All parts are alike, so the block's common scale rounds no part's scale. The least-squares fit
/// then meets the heavily weighted numbers up to f16's last bit: two numbers of a line with a
/// minimum (x = a·q − b), and one number of a line without a minimum (x = a·q).
TEST(QuantiseK, WhatWeighsAllIsMet) {
  std::vector<float> values(kKBlock), weights(kKBlock, 1e-4f);
  for (std::size_t i = 0; i < kKBlock; ++i)
    values[i] = -0.31f + static_cast<float>(i % kKSixBitPart) / 16;
  values[3] = -0.1371f;
  values[11] = 0.4003f;
  for (std::size_t i = kKSixBitPart; i < kKBlock; ++i) values[i] = values[i % kKSixBitPart];
  for (std::size_t i = 0; i < kKBlock; i += kKSixBitPart) weights[i + 11] = 1e4f;
  EXPECT_NEAR(rounded(kQ6K, values, weights)[11], 0.4003f, 0.4003f * 0x1p-10f);
  EXPECT_GT(std::fabs(rounded(kQ6K, values)[11] - 0.4003f), 0.4003f * 0x1p-9f);
  for (std::size_t i = 0; i < kKBlock; i += kKSixBitPart) weights[i + 3] = 1e4f;
  const auto with = rounded(kQ4K, values, weights), without = rounded(kQ4K, values);
  EXPECT_NEAR(with[3], -0.1371f, 0x1p-10f);
  EXPECT_NEAR(with[11], 0.4003f, 0x1p-10f);
  EXPECT_GT(std::fabs(without[3] + 0.1371f) + std::fabs(without[11] - 0.4003f), 0x1p-8f);
}

/// Rounding numbers that blocks already hold changes them by f16's steps at most.
TEST(QuantiseK, RoundingTwiceChangesLittle) {
  for (const KType& type : {kQ4K, kQ6K}) {
    const std::vector<float> once = rounded(type, drawn(0, 1, 16)), twice = rounded(type, once);
    double power = 0;
    for (const float x : once) power += double{x} * double{x};
    EXPECT_LT(squared_error(once, twice), 1e-3 * power) << type.name;
  }
}

}  // namespace
}  // namespace penstock
