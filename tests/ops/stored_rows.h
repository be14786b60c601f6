// Rows of random numbers in each type of file. Their values are computed number by number from the
// formats' descriptions. They are the oracle for code that reads the rows in vectors.
#pragma once

#include <torch/types.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "penstock/base/random.h"
#include "penstock/ops/stored_matrix.h"

namespace penstock::testing {

/// The value of an IEEE binary16 number, by the format's definition.
inline double half_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const double size =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -size : size;
}

/// A matrix with its own memory, and the matrix's numbers in f64.
struct RandomRows {
  std::vector<std::uint8_t> bytes;
  at::Tensor values;  // [rows, depth] f64
  ops::StoredRows stored;
};

namespace stored_detail {

inline std::uint16_t half_at(const std::uint8_t* at) {
  std::uint16_t out;
  std::memcpy(&out, at, 2);
  return out;
}

inline double q4_k(const std::uint8_t* block, int i) {
  const int part = i / 32, code = block[16 + i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
  const std::uint8_t* s = block + 4;
  const int scale = part < 4 ? s[part] & 63 : (s[part + 4] & 15) | (s[part - 4] >> 6) << 4;
  const int minimum = part < 4 ? s[part + 4] & 63 : s[part + 4] >> 4 | (s[part] >> 6) << 4;
  const double product = half_value(half_at(block)) * scale * code,
               off = half_value(half_at(block + 2)) * minimum;
  return static_cast<float>(product - off);  // the only rounding
}

/// Reads code i of a block of 32 numbers in 4 or 5 bits. The block holds `before` bytes of f16 (a
/// scale, and in some types a minimum), then the codes' fifth bits if `five`, then their lower four
/// bits.
inline int small_code(const std::uint8_t* block, int i, int before, bool five) {
  const std::uint8_t* const codes = block + before + (five ? 4 : 0);
  const int low = i < 16 ? codes[i] & 15 : codes[i - 16] >> 4;
  return five ? low + 16 * (block[before + i / 8] >> (i % 8) & 1) : low;
}

inline double with_minimum(const std::uint8_t* block, int code) {
  return static_cast<float>(half_value(half_at(block)) * code + half_value(half_at(block + 2)));
}

inline double q5_k(const std::uint8_t* block, int i) {
  const int part = i / 32;
  const int code = (block[48 + i / 64 * 32 + i % 32] >> (part % 2 * 4) & 15) +
                   16 * (block[16 + i % 32] >> part & 1);
  const std::uint8_t* s = block + 4;
  const int scale = part < 4 ? s[part] & 63 : (s[part + 4] & 15) | (s[part - 4] >> 6) << 4;
  const int minimum = part < 4 ? s[part + 4] & 63 : s[part + 4] >> 4 | (s[part] >> 6) << 4;
  return static_cast<float>(half_value(half_at(block)) * scale * code -
                            half_value(half_at(block + 2)) * minimum);
}

inline double q6_k(const std::uint8_t* block, int i) {
  const int half = i / 128, row = i / 32 % 4, column = i % 32;
  const int low = block[64 * half + row % 2 * 32 + column] >> (row / 2 * 4) & 15;
  const int high = block[128 + 32 * half + column] >> (2 * row) & 3;
  const auto scale = static_cast<std::int8_t>(block[192 + i / 16]);
  return half_value(half_at(block + 208)) * scale * ((low | high << 4) - 32);
}

inline double number(ops::RowType type, const std::uint8_t* row, std::int64_t i) {
  const ops::RowBlock of = ops::row_block(type);
  const std::uint8_t* const block = row + i / of.numbers * of.bytes;
  const int within = static_cast<int>(i % of.numbers);
  switch (type) {
    case ops::RowType::f32: {
      float out;
      std::memcpy(&out, block, 4);
      return out;
    }
    case ops::RowType::f16:
      return half_value(half_at(block));
    case ops::RowType::bf16: {
      const std::uint32_t bits = std::uint32_t{half_at(block)} << 16;
      float out;
      std::memcpy(&out, &bits, 4);
      return out;
    }
    case ops::RowType::q8_0:
      return half_value(half_at(block)) * static_cast<std::int8_t>(block[2 + within]);
    case ops::RowType::q4_0:
      return half_value(half_at(block)) * (small_code(block, within, 2, false) - 8);
    case ops::RowType::q4_1:
      return with_minimum(block, small_code(block, within, 4, false));
    case ops::RowType::q5_0:
      return half_value(half_at(block)) * (small_code(block, within, 2, true) - 16);
    case ops::RowType::q5_1:
      return with_minimum(block, small_code(block, within, 4, true));
    case ops::RowType::q4_k:
      return q4_k(block, within);
    case ops::RowType::q5_k:
      return q5_k(block, within);
    case ops::RowType::q6_k:
      return q6_k(block, within);
  }
  return NAN;
}

/// Clears bits of a row's plain numbers or scales, so that none is infinite, huge or NaN.
inline void tame(ops::RowType type, std::uint8_t* row, std::int64_t depth) {
  const ops::RowBlock of = ops::row_block(type);
  const auto clear = [&](std::int64_t at, std::uint8_t keep) { row[at] &= keep; };
  for (std::int64_t b = 0; b < depth / of.numbers; ++b) {
    const std::int64_t at = b * of.bytes;
    switch (type) {
      case ops::RowType::f32:
        clear(at + 3, 0xbf);
        break;  // below 2
      case ops::RowType::bf16:
        clear(at + 1, 0xbf);
        break;  // below 2
      case ops::RowType::f16:
        clear(at + 1, 0xbf);
        break;  // below 2, sometimes subnormal
      case ops::RowType::q8_0:
      case ops::RowType::q4_0:
      case ops::RowType::q5_0:
        clear(at + 1, 0x87);
        break;  // sometimes subnormal
      case ops::RowType::q4_1:
      case ops::RowType::q5_1:
      case ops::RowType::q4_k:
      case ops::RowType::q5_k:
        clear(at + 1, 0x87);
        clear(at + 3, 0x87);
        break;
      case ops::RowType::q6_k:
        clear(at + 209, 0x87);
        break;
    }
  }
}

}  // namespace stored_detail

inline const std::vector<ops::RowType> kRowTypes{
    ops::RowType::f32,  ops::RowType::f16,  ops::RowType::bf16, ops::RowType::q8_0,
    ops::RowType::q4_0, ops::RowType::q4_1, ops::RowType::q5_0, ops::RowType::q5_1,
    ops::RowType::q4_k, ops::RowType::q5_k, ops::RowType::q6_k};

/// REQUIRES: depth is a multiple of the type's block. The bytes begin at an odd address.
inline RandomRows random_rows(ops::RowType type, std::int64_t rows, std::int64_t depth,
                              std::uint64_t seed) {
  const std::int64_t row = ops::row_bytes(type, depth);
  RandomRows out;
  out.bytes.resize(static_cast<std::size_t>(rows * row + 1));
  for (std::size_t i = 0; i < out.bytes.size(); ++i)
    out.bytes[i] = static_cast<std::uint8_t>(random_bits(seed, 7, i) >> 13);
  std::uint8_t* const first = out.bytes.data() + 1;
  out.values = torch::empty({rows, depth}, torch::kDouble);
  auto* to = out.values.data_ptr<double>();
  for (std::int64_t r = 0; r < rows; ++r) {
    stored_detail::tame(type, first + r * row, depth);
    for (std::int64_t i = 0; i < depth; ++i)
      *to++ = stored_detail::number(type, first + r * row, i);
  }
  out.stored = {.type = type, .rows = rows, .data = reinterpret_cast<const std::byte*>(first)};
  return out;
}

}  // namespace penstock::testing
