#include "penstock/io/quantise_k.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/half.h"
#include "penstock/io/k_blocks.h"

namespace penstock {
namespace {

/// A part whose range, or whose largest absolute value, is smaller has no scale of its own. Scales
/// are stored in units of at least 2^-24, and a division by a still smaller range would overflow.
constexpr float kLeastRange = 0x1p-100f;

/// Stands for weights that are all equal. Other weights are a `const float*`.
struct Alike {
  float operator[](std::size_t) const { return 1; }
  Alike operator+(std::size_t) const { return {}; }
};

/// Weighted sums over a part. They decide the part's scales.
struct CodeSums {
  float codes = 0, squares = 0, products = 0;  // sums of q, q² and q·x
};

/// Sums f(i) over n numbers in eight lanes, so that compilers can use vector instructions.
template <std::size_t n, class F>
float lane_sum(const F& f) {
  static_assert(n % 8 == 0);
  std::array<float, 8> lanes = {};
  for (std::size_t i = 0; i < n; i += 8)
    for (std::size_t l = 0; l < 8; ++l) lanes[l] += f(i + l);
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

/// round(v) within [low, high]. Halves round up.
float code_near(float v, int low, int high) {
  const float from_low = v - static_cast<float>(low) + 0.5f;
  const float clamped = from_low < 0 ? 0 : from_low > 255 ? 255 : from_low;
  const int code = low + static_cast<int>(clamped);
  return static_cast<float>(code > high ? high : code);
}

template <std::size_t n>
std::array<float, n> codes_near(const float* x, float inverse, float offset, int low, int high) {
  std::array<float, n> out;
  for (std::size_t i = 0; i < n; ++i) out[i] = code_near((x[i] + offset) * inverse, low, high);
  return out;
}

template <std::size_t n, class Weights>
CodeSums sums_of(const std::array<float, n>& codes, const float* x, Weights w) {
  return {.codes = lane_sum<n>([&](std::size_t i) { return w[i] * codes[i]; }),
          .squares = lane_sum<n>([&](std::size_t i) { return w[i] * codes[i] * codes[i]; }),
          .products = lane_sum<n>([&](std::size_t i) { return w[i] * codes[i] * x[i]; })};
}

/// Σ w_i (scale·q_i − minimum − x_i)²
template <std::size_t n, class Weights>
float error_of(const std::array<float, n>& codes, float scale, float minimum, const float* x,
               Weights w) {
  return lane_sum<n>([&](std::size_t i) {
    const float off = scale * codes[i] - minimum - x[i];
    return w[i] * off * off;
  });
}

void check_finite(std::span<const float> values, const char* type) {
  for (const float x : values)
    PENSTOCK_CHECK(std::isfinite(x), "a number that is not finite cannot be stored as ", type);
}

std::uint16_t stored_scale(float scale, const char* type) {
  const std::uint16_t stored = f32_to_f16(scale);
  PENSTOCK_CHECK((stored & 0x7c00u) != 0x7c00u, "numbers whose scale is ", scale,
                 " are beyond what ", type, " holds; store the model as F32");
  return stored;
}

/// a/unit as an integer of [low, high]; 0 for a unit of 0.
int in_units(float a, float unit, int low, int high) {
  return unit == 0 ? 0 : std::clamp(static_cast<int>(std::lround(a / unit)), low, high);
}

// ---- Q4_K

struct Line {  // stands for x ≈ scale·q − minimum
  float scale = 0, minimum = 0;
};

/// The least-squares line through (q, x) with minimum ≥ 0, and the remaining sum of squares without
/// the term Σ w·x².
/// @param n, sum  Σ w and Σ w·x
std::pair<Line, double> fitted(const CodeSums& s, double n, double sum) {
  const double q = s.codes, qq = s.squares, qx = s.products;
  const double determinant = n * qq - q * q;
  double a = determinant > 0 ? (n * qx - q * sum) / determinant : 0;
  double b = (a * q - sum) / n;
  if (b < 0) {
    b = 0;
    a = qq > 0 ? qx / qq : 0;
  }
  const double left = a * a * qq + n * b * b - 2 * a * b * q - 2 * a * qx + 2 * b * sum;
  return {{static_cast<float>(a), static_cast<float>(b)}, left};
}

template <class Weights>
Line fit_part(const float* x, Weights w) {
  const auto [smallest, largest] = std::minmax_element(x, x + kKPart);
  const float low = std::min(*smallest, 0.0f), range = *largest - low;
  if (range < kLeastRange) return {0, -low};  // all numbers are equal, or nearly so
  const double n = lane_sum<kKPart>([&](std::size_t i) { return w[i]; });
  const double sum = lane_sum<kKPart>([&](std::size_t i) { return w[i] * x[i]; });
  Line best;
  double least = 0;
  for (int step = -10; step <= 10; ++step) {
    const float inverse = (15 + 0.1f * static_cast<float>(step)) / range;
    const auto codes = codes_near<kKPart>(x, inverse, -low, 0, 15);
    const auto [line, left] = fitted(sums_of(codes, x, w), n, sum);
    // A real slope is about range / 15. If nearly all numbers got the same code, rounding alone
    // decides the slope; then it may be above range / 7.
    const bool is_slope = line.scale > 0 && line.scale * 7 < range;
    if (!is_slope || (best.scale > 0 && left >= least)) continue;
    best = line;
    least = left;
  }
  return best.scale > 0 ? best : Line{range / 15, -low};
}

struct CodedPart {
  int scale = 0, minimum = 0;
  std::array<float, kKPart> codes;
  float error = -1;
};

/// The best of the integer scales next to the line's scales.
template <class Weights>
CodedPart code_part(const float* x, Weights w, const Line& line, float scale, float minimum) {
  const int s = in_units(line.scale, scale, 0, 63), m = in_units(line.minimum, minimum, 0, 63);
  CodedPart best;
  for (int scale_code = std::max(s - 1, 0); scale_code <= std::min(s + 1, 63); ++scale_code)
    for (int low_code = std::max(m - 1, 0); low_code <= std::min(m + 1, 63); ++low_code) {
      const float a = scale * static_cast<float>(scale_code);
      const float b = minimum * static_cast<float>(low_code);
      const auto codes = codes_near<kKPart>(x, a > 0 ? 1 / a : 0, b, 0, 15);
      const float error = error_of(codes, a, b, x, w);
      if (best.error < 0 || error < best.error) best = {scale_code, low_code, codes, error};
    }
  return best;
}

template <class Weights>
Q4KBlock quantised_q4_k(const float* x, Weights w) {
  std::array<Line, kKBlock / kKPart> lines;
  Line largest;
  for (std::size_t p = 0; p < lines.size(); ++p) {
    lines[p] = fit_part(x + p * kKPart, w + p * kKPart);
    largest.scale = std::max(largest.scale, lines[p].scale);
    largest.minimum = std::max(largest.minimum, lines[p].minimum);
  }
  Q4KBlock out = {.scale = stored_scale(largest.scale / 63, "Q4_K"),
                  .minimum = stored_scale(largest.minimum / 63, "Q4_K"),
                  .parts = {},
                  .codes = {}};
  const float scale = f16_to_f32(out.scale), minimum = f16_to_f32(out.minimum);
  KPartScales parts;
  for (std::size_t p = 0; p < lines.size(); ++p) {
    const CodedPart part = code_part(x + p * kKPart, w + p * kKPart, lines[p], scale, minimum);
    parts.scale[p] = static_cast<std::uint8_t>(part.scale);
    parts.minimum[p] = static_cast<std::uint8_t>(part.minimum);
    for (std::size_t i = 0; i < kKPart; ++i)
      out.codes[p / 2 * kKPart + i] |=
          static_cast<std::uint8_t>(static_cast<int>(part.codes[i]) << (p % 2 * 4));
  }
  out.parts = pack_scales(parts);
  return out;
}

// ---- Q6_K

constexpr int kSixLow = -32, kSixHigh = 31;

float largest_of(const float* x, std::size_t n) {
  return *std::max_element(x, x + n, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
}

/// The least-squares scale of a part of Q6_K.
template <class Weights>
float fit_six_bits(const float* x, Weights w) {
  const float largest = largest_of(x, kKSixBitPart);
  if (std::fabs(largest) < kLeastRange) return 0;
  float best = 0, most = 0;
  for (int step = -9; step <= 9; ++step) {
    const float inverse = -(32 + 0.1f * static_cast<float>(step)) / largest;
    const CodeSums s = sums_of(codes_near<kKSixBitPart>(x, inverse, 0, kSixLow, kSixHigh), x, w);
    if (!(s.squares > 0) || s.products * s.products <= most * s.squares) continue;
    most = s.products * s.products / s.squares;
    best = s.products / s.squares;
  }
  return best;
}

void put_six_bits(Q6KBlock& block, std::size_t number, int code) {
  const SixBitPlace place = six_bit_place(number);
  block.low[place.low] |= static_cast<std::uint8_t>((code & 15) << place.low_shift);
  block.high[place.high] |= static_cast<std::uint8_t>((code >> 4) << place.high_shift);
}

template <class Weights>
Q6KBlock quantised_q6_k(const float* x, Weights w) {
  std::array<float, kKBlock / kKSixBitPart> scales;
  for (std::size_t p = 0; p < scales.size(); ++p)
    scales[p] = fit_six_bits(x + p * kKSixBitPart, w + p * kKSixBitPart);
  Q6KBlock out = {};
  out.scale = stored_scale(largest_of(scales.data(), scales.size()) / -128, "Q6_K");
  const float unit = f16_to_f32(out.scale);
  for (std::size_t p = 0; p < scales.size(); ++p) {
    const float* const from = x + p * kKSixBitPart;
    const int near = in_units(scales[p], unit, -128, 127);
    std::array<float, kKSixBitPart> codes = {};
    float least = -1;
    for (int s = std::max(near - 1, -128); s <= std::min(near + 1, 127); ++s) {
      const float by = unit * static_cast<float>(s), inverse = by != 0 ? 1 / by : 0;
      const auto tried = codes_near<kKSixBitPart>(from, inverse, 0, kSixLow, kSixHigh);
      const float error = error_of(tried, by, 0, from, w + p * kKSixBitPart);
      if (least >= 0 && error >= least) continue;
      least = error;
      codes = tried;
      out.parts[p] = static_cast<std::int8_t>(s);
    }
    for (std::size_t i = 0; i < kKSixBitPart; ++i)
      put_six_bits(out, p * kKSixBitPart + i, static_cast<int>(codes[i]) - kSixLow);
  }
  return out;
}

// ---- both types

/// Writes the blocks. make(i) gives the block of the 256 numbers from index i on.
template <class Block, class Make>
void write_blocks(std::span<const float> values, std::span<std::byte> out, const char* type,
                  const Make& make) {
  PENSTOCK_ASSERT(values.size() % kKBlock == 0 &&
                  out.size() == values.size() / kKBlock * sizeof(Block));
  for (std::size_t i = 0; i < values.size(); i += kKBlock, out = out.subspan(sizeof(Block))) {
    check_finite(values.subspan(i, kKBlock), type);
    const Block block = make(i);
    std::memcpy(out.data(), &block, sizeof block);
  }
}

void check_weights(std::span<const float> values, std::span<const float> weights) {
  PENSTOCK_ASSERT(weights.size() == values.size());
  PENSTOCK_ASSERT(std::ranges::all_of(weights, [](float w) { return w > 0 && std::isfinite(w); }));
}

/// Σ w_i (y_i − x_i)² of a block's numbers y.
template <class Block, class Dequantise>
double weighted_error(const Block& block, const float* x, const float* w,
                      const Dequantise& dequantise) {
  std::array<float, kKBlock> numbers;
  dequantise(std::as_bytes(std::span(&block, 1)), numbers);
  double sum = 0;
  for (std::size_t i = 0; i < kKBlock; ++i) {
    const double off = double{numbers[i]} - double{x[i]};
    sum += double{w[i]} * off * off;
  }
  return sum;
}

/// The weighted fit, or the unweighted one if its weighted error is smaller. It can be smaller
/// because the parts share a scale: a gain of one part may be a loss of another.
template <class Quantise, class Dequantise>
auto nearer_block(const float* x, const float* w, const Quantise& quantised,
                  const Dequantise& dequantise) {
  const auto weighted = quantised(x, w), plain = quantised(x, Alike());
  return weighted_error(weighted, x, w, dequantise) < weighted_error(plain, x, w, dequantise)
             ? weighted
             : plain;
}

template <class Block, class Quantise, class Dequantise>
void write_nearer(std::span<const float> values, std::span<const float> weights,
                  std::span<std::byte> out, const char* type, const Quantise& quantised,
                  const Dequantise& dequantise) {
  check_weights(values, weights);
  write_blocks<Block>(values, out, type, [&](std::size_t i) {
    return nearer_block(values.data() + i, weights.data() + i, quantised, dequantise);
  });
}

}  // namespace

void quantise_q4_k(std::span<const float> values, std::span<std::byte> out) {
  write_blocks<Q4KBlock>(values, out, "Q4_K",
                         [&](std::size_t i) { return quantised_q4_k(values.data() + i, Alike()); });
}

void quantise_q4_k(std::span<const float> values, std::span<const float> weights,
                   std::span<std::byte> out) {
  write_nearer<Q4KBlock>(
      values, weights, out, "Q4_K", [](const float* x, auto w) { return quantised_q4_k(x, w); },
      dequantise_q4_k);
}

void quantise_q6_k(std::span<const float> values, std::span<std::byte> out) {
  write_blocks<Q6KBlock>(values, out, "Q6_K",
                         [&](std::size_t i) { return quantised_q6_k(values.data() + i, Alike()); });
}

void quantise_q6_k(std::span<const float> values, std::span<const float> weights,
                   std::span<std::byte> out) {
  write_nearer<Q6KBlock>(
      values, weights, out, "Q6_K", [](const float* x, auto w) { return quantised_q6_k(x, w); },
      dequantise_q6_k);
}

}  // namespace penstock
