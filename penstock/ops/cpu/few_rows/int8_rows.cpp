#include "penstock/ops/cpu/few_rows/int8_rows.h"

#include <algorithm>
#include <optional>

#include "penstock/base/error.h"
#include "penstock/ops/cpu/few_rows/dot_rows.h"
#include "penstock/ops/cpu/few_rows/int8_readers.h"
#include "penstock/ops/machine/product_unit.h"

namespace penstock::ops::cpu {
namespace {

constexpr std::int64_t kGroup = 256, kPart = 32;  // numbers of a block, and of one scale

PENSTOCK_INLINE UInt16 lanes_at(const void* from) {
  return bytes_at<UInt16>(static_cast<const std::byte*>(from));
}

/// y[r, j] = x_r · w_j for R rows from `first` on and J columns.
template <class Reader, class Dot, int R, int J>
PENSTOCK_INLINE void int8_tile(const Int8Operands& o, std::int64_t first, Fetch<J> fetch) {
  Vec16 sums[R * J]{};
  const std::byte* w = o.w;
  for (std::int64_t i = 0; i < o.x.depth(); i += kGroup, w += Reader::kBytes) {
    fetch.template blocks<Reader::kBytes>();
    Reader blocks[J];
    Vec16 parts[R * J];
#pragma GCC unroll 8
    for (int j = 0; j < J; ++j) {
      blocks[j].begin(w + j * o.w_stride);
#pragma GCC unroll 2
      for (int r = 0; r < R; ++r)
        parts[r * J + j] = blocks[j].parts(o.x.scales(first + r, i), sums[r * J + j]);
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      UInt16 codes[J];
#pragma GCC unroll 8
      for (int j = 0; j < J; ++j) codes[j] = blocks[j].codes(c);
#pragma GCC unroll 2
      for (int r = 0; r < R; ++r) {
        const auto x = lanes_at(o.x.codes(first + r, i + 64 * c));
        Int16 begin{};
        if constexpr (Reader::kOffset >= 0)
          begin = std::bit_cast<Int16>(
              -(lanes_at(o.x.sums_of_four(first + r, i + 64 * c)) << Reader::kOffset));
#pragma GCC unroll 8
        for (int j = 0; j < J; ++j)
          sums[r * J + j] += __builtin_convertvector(Dot::dot(begin, codes[j], x), Vec16) *
                             Reader::factor(parts[r * J + j], c);
      }
    }
  }
  float totals[R * J];
  store_sums<R * J>(sums, totals);
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < J; ++j) o.y[(first - o.first_row + r) * o.y_stride + j] = totals[r * J + j];
}

template <class Reader, class Dot, int J>
PENSTOCK_INLINE void int8_columns(const Int8Operands& o, std::int64_t rows) {
  const std::int64_t tiles = (rows + 1) / 2;
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    const std::int64_t first = o.first_row + 2 * tile;
    const Fetch<J> fetch = share_of_next<Reader, J>(o.w, o.w_stride, o.x.depth(), tile, tiles);
    if (2 * tile + 1 < rows)
      int8_tile<Reader, Dot, 2, J>(o, first, fetch);
    else
      int8_tile<Reader, Dot, 1, J>(o, first, fetch);
  }
}

template <class Reader, class Dot>
PENSTOCK_INLINE void int8_matrix(Int8Operands o, std::int64_t rows, std::int64_t columns) {
  const auto next = [&](std::int64_t count) {
    o.w += count * o.w_stride;
    o.y += count;
    columns -= count;
  };
  for (; columns >= kDotColumns; next(kDotColumns)) int8_columns<Reader, Dot, kDotColumns>(o, rows);
  for (; columns > 0; next(1)) int8_columns<Reader, Dot, 1>(o, rows);
}

// g++ 12 cannot clone templates, so each type has a function of its own.
#define PENSTOCK_INT8_TYPE(name, target, ...)                                            \
  target void int8_##name(const Int8Operands& o, std::int64_t rows, std::int64_t cols) { \
    int8_matrix<__VA_ARGS__>(o, rows, cols);                                             \
  }
PENSTOCK_INT8_TYPE(q4_k, PENSTOCK_PER_CPU, Int8Q4K<WidenPortably, DotPortably>, DotPortably)
PENSTOCK_INT8_TYPE(q6_k, PENSTOCK_PER_CPU, Int8Q6K<WidenPortably, DotPortably>, DotPortably)
#if defined(PENSTOCK_HAS_CLONES)
#define PENSTOCK_AVX512 __attribute__((target("arch=x86-64-v4")))
PENSTOCK_INT8_TYPE(q4_k_vnni, PENSTOCK_AVX512, Int8Q4K<WidenByAvx512, DotByVnni>, DotByVnni)
PENSTOCK_INT8_TYPE(q6_k_vnni, PENSTOCK_AVX512, Int8Q6K<WidenByAvx512, DotByVnni>, DotByVnni)
#undef PENSTOCK_AVX512
#endif
#undef PENSTOCK_INT8_TYPE

struct OfType {
  Int8Products portable, vnni;  // vnni: null in a build without clones
};

std::optional<OfType> products_of(RowType type) {
#if !defined(PENSTOCK_HAS_CLONES)
  constexpr Int8Products int8_q4_k_vnni = nullptr, int8_q6_k_vnni = nullptr;
#endif
  switch (type) {
    case RowType::q4_k:
      return OfType{int8_q4_k, int8_q4_k_vnni};
    case RowType::q6_k:
      return OfType{int8_q6_k, int8_q6_k_vnni};
    default:
      return std::nullopt;
  }
}

bool has_vnni() {
#if defined(PENSTOCK_HAS_CLONES)
  return __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

/// Rounds 32 numbers to codes.  @return their scale
PENSTOCK_INLINE float round_part(const float* x, std::int8_t* codes) {
  const Vec16 halves[2] = {load(x), load(x + kLanes)};
  const auto size = [](const Vec16& v) {
    return std::bit_cast<Vec16>(std::bit_cast<UInt16>(v) & 0x7fffffffu);
  };
  const float most = largest(larger(size(halves[0]), size(halves[1])));
  const float nothing =
      sum(halves[0] * 0.0f + halves[1] * 0.0f);  // 0, or NaN where a number is not finite
  const bool finite = nothing == 0;
  const float inverse = finite && most > 0 ? 127.0f / most : 0.0f;
  for (int half = 0; half < 2; ++half) {
    // The low bits now hold the nearest integer.
    const Vec16 shifted = (finite ? halves[half] * inverse : Vec16{}) + 12582912.0f;
    const Int16 whole = std::bit_cast<Int16>(shifted) - 0x4b400000;
    using Shorts = std::int16_t __attribute__((vector_size(32)));
    const auto bytes =
        __builtin_convertvector(__builtin_convertvector(whole, Shorts), SignedByte16);
    std::memcpy(codes + half * kLanes, &bytes, sizeof(bytes));
  }
  return most / 127.0f + nothing;
}

PENSTOCK_PER_CPU void round_row(const float* x, std::int64_t depth, std::int8_t* codes,
                                std::int32_t* sums_of_four, float* scales) {
  const UInt16 ones = UInt16{} + 0x01010101u;
  for (std::int64_t first = 0; first < depth; first += kGroup, scales += 16) {
    for (std::int64_t part = 0; part < 8; ++part)
      scales[part] = round_part(x + first + part * kPart, codes + first + part * kPart);
    for (std::int64_t at = first; at < first + kGroup; at += 64) {
      const Int16 sums = DotPortably::dot(Int16{}, ones, lanes_at(codes + at));
      std::memcpy(sums_of_four + at / 4, &sums, sizeof(sums));
    }
    for (std::int64_t part = 0; part < 8; ++part) {
      std::int32_t total = 0;
      for (int four = 0; four < 8; ++four) total += sums_of_four[first / 4 + 8 * part + four];
      scales[8 + part] = -scales[part] * static_cast<float>(total);
    }
  }
}

}  // namespace

Int8Rows::Int8Rows(std::int64_t rows, std::int64_t depth)
    : rows_(rows),
      depth_(depth),
      codes_(static_cast<std::size_t>(rows * depth)),
      sums_of_four_(static_cast<std::size_t>(rows * depth / 4)),
      scales_(static_cast<std::size_t>(rows * depth / 16)) {
  PENSTOCK_ASSERT(depth % kGroup == 0);
}

void Int8Rows::set(std::int64_t row, const float* x) {
  round_row(x, depth_, codes_.data() + row * depth_, sums_of_four_.data() + row * depth_ / 4,
            scales_.data() + row * depth_ / 16);
}

std::vector<Int8Products> int8_products(RowType type) {
  const auto found = products_of(type);
  if (!found) return {};
  return has_vnni() ? std::vector{found->vnni, found->portable} : std::vector{found->portable};
}

bool rounds_x(const StoredRows& rows) {
  return rows.activations == Activations::int8 && products_of(rows.type);
}

ProductPrecision precision_of_many(std::initializer_list<std::span<const StoredRows>> matrices) {
  const auto round = [](std::span<const StoredRows> pieces) {
    return std::ranges::all_of(pieces, rounds_x);
  };
  return product_unit() && std::ranges::all_of(matrices, round) ? ProductPrecision::bf16
                                                                : product_precision();
}

void dot_int8_rows(RowType type, const Int8Operands& operands, std::int64_t rows,
                   std::int64_t columns) {
  static const bool vnni = has_vnni();
  const auto found = products_of(type);
  PENSTOCK_ASSERT(found, row_type_name(type));
  (vnni ? found->vnni : found->portable)(operands, rows, columns);
}

}  // namespace penstock::ops::cpu
