#include "penstock/ops/cpu/bf16/pack.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "penstock/ops/cpu/bf16/native_rounding.h"
#include "penstock/ops/cpu/bf16/rounding.h"
#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/rows.h"

namespace penstock::ops::bf16 {
namespace {

using cpu::UInt16;
using cpu::Vec16;
using Half16 = std::uint16_t __attribute__((vector_size(32)));
constexpr std::int64_t kLanes = cpu::kLanes;

/// Up to sixteen values as bf16 in the upper halves of the lanes. Lanes after `count` are zeros.
PENSTOCK_INLINE UInt16 upper_halves(const float* from, std::int64_t count) {
  Vec16 x{};
  std::memcpy(&x, from, sizeof(float) * std::min(count, kLanes));
  return round_lanes(x);
}
PENSTOCK_INLINE UInt16 upper_halves(const std::uint16_t* from, std::int64_t count) {
  Half16 x{};
  std::memcpy(&x, from, sizeof(std::uint16_t) * std::min(count, kLanes));
  return __builtin_convertvector(x, UInt16) << 16;
}
PENSTOCK_INLINE UInt16 whole_upper_halves(const float* from) {
  return round_lanes(cpu::load(from));
}
PENSTOCK_INLINE UInt16 whole_upper_halves(const std::uint16_t* from) {
  Half16 x;
  std::memcpy(&x, from, sizeof(x));
  return __builtin_convertvector(x, UInt16) << 16;
}

template <class T>
PENSTOCK_INLINE void pack(std::int64_t columns, const T* first, const T* second, Pair* to,
                          std::int64_t panel) {
  for (std::int64_t j = 0; j < columns; j += kPanel, to += panel) {
    std::int64_t i = j;
    for (; i < j + kPanel && i + kLanes <= columns; i += kLanes) {
      const UInt16 low = whole_upper_halves(first + i);
      const UInt16 high = second ? whole_upper_halves(second + i) : UInt16{};
      const UInt16 pairs = (low >> 16) | high;
      std::memcpy(to + i - j, &pairs, sizeof(pairs));
    }
    for (; i < j + kPanel; i += kLanes) {
      UInt16 pairs{};
      if (i < columns) {
        pairs = upper_halves(first + i, columns - i) >> 16;
        if (second) pairs |= upper_halves(second + i, columns - i);
      }
      std::memcpy(to + i - j, &pairs, sizeof(pairs));
    }
  }
}

PENSTOCK_PER_CPU void pack_floats(std::int64_t columns, const float* first, const float* second,
                                  Pair* to, std::int64_t panel) {
  pack(columns, first, second, to, panel);
}
PENSTOCK_PER_CPU void pack_halves(std::int64_t columns, const std::uint16_t* first,
                                  const std::uint16_t* second, Pair* to, std::int64_t panel) {
  pack(columns, first, second, to, panel);
}

}  // namespace

void pack_row_pair(std::int64_t columns, const float* first, const float* second, Pair* to,
                   std::int64_t panel) {
  const NativeRounding* native = native_rounding();
  (native ? native->pair : pack_floats)(columns, first, second, to, panel);
}
void pack_row_pair(std::int64_t columns, const std::uint16_t* first, const std::uint16_t* second,
                   Pair* to, std::int64_t panel) {
  pack_halves(columns, first, second, to, panel);
}

namespace {

/// Packs one panel. Its columns are up to kPanel rows [depth] from `from` on.
void turn_panel(std::int64_t count, std::int64_t depth, const float* from, Pair* to) {
  constexpr std::int64_t kGroup = 16, kChunk = 256;  // rows and pairs that are transposed together
  const std::int64_t pairs = pairs_of(depth);
  alignas(64) std::uint16_t rows[kGroup][2 * kChunk];
  for (std::int64_t i = 0; i < kPanel; i += kGroup)
    for (std::int64_t k = 0; k < pairs; k += kChunk) {
      const std::int64_t width = std::min(kChunk, pairs - k);
      const std::int64_t values = std::clamp<std::int64_t>(depth - 2 * k, 0, 2 * width);
      for (std::int64_t r = 0; r < kGroup; ++r) {
        const std::int64_t real = i + r < count ? values : 0;
        if (real > 0) round_row(real, from + (i + r) * depth + 2 * k, rows[r]);
        std::fill(rows[r] + real, rows[r] + 2 * width, std::uint16_t{0});
      }
      cpu::transpose(kGroup, width, reinterpret_cast<const float*>(rows), kChunk,
                     reinterpret_cast<float*>(to + k * kPanel + i), kPanel);
    }
}

template <class T>
void pack_any(std::int64_t begin, std::int64_t end, std::int64_t rows, std::int64_t columns,
              const T* x, Pair* panels, std::int64_t panel) {
  const T* none = nullptr;
  for (std::int64_t p = begin; p < end; ++p) {
    Pair* to = panels + p * kPanel;
    const T* first = x + 2 * p * columns;
    if (2 * p < rows)
      pack_row_pair(columns, first, 2 * p + 1 < rows ? first + columns : none, to, panel);
    else
      for (std::int64_t j = 0; j < columns; j += kPanel, to += panel)
        std::fill_n(to, kPanel, Pair{0});
  }
}

}  // namespace

void pack_rows(std::int64_t first, std::int64_t last, std::int64_t rows, std::int64_t columns,
               const float* x, Pair* to, std::int64_t panel) {
  pack_any(first, last, rows, columns, x, to, panel);
}

void pack_transposed(std::int64_t first, std::int64_t last, std::int64_t n, std::int64_t depth,
                     const float* w, Pair* to) {
  for (std::int64_t panel = first; panel < last; ++panel)
    turn_panel(std::min(kPanel, n - panel * kPanel), depth, w + panel * kPanel * depth,
               to + panel * kPanel * pairs_of(depth));
}

Panels empty_panels(std::int64_t columns, std::int64_t depth) {
  const std::int64_t pairs = pairs_of(depth);
  return {at::empty({panel_pairs(columns, pairs)}, at::kInt), pairs};
}

Panels transposed_panels(const at::Tensor& w) {
  const std::int64_t n = w.size(0), depth = w.size(1);
  const Panels out = empty_panels(n, depth);
  const float* from = w.data_ptr<float>();
  cpu::parallel_ranges((n + kPanel - 1) / kPanel, 1, [&](std::int64_t begin, std::int64_t end) {
    pack_transposed(begin, end, n, depth, from, out.data());
  });
  return out;
}

Panels row_panels(const at::Tensor& x) {
  const std::int64_t depth = x.size(0), n = x.size(1);
  const Panels out = empty_panels(n, depth);
  const bool wide = x.scalar_type() == at::kFloat;
  const void* from = x.data_ptr();
  cpu::parallel_ranges(out.pairs, 16, [&](std::int64_t begin, std::int64_t end) {
    if (wide)
      pack_any(begin, end, depth, n, static_cast<const float*>(from), out.data(), out.panel());
    else
      pack_any(begin, end, depth, n, static_cast<const std::uint16_t*>(from), out.data(),
               out.panel());
  });
  return out;
}

PairRows pair_rows(const at::Tensor& x) {
  const std::int64_t depth = x.size(1);
  if (depth % 2 == 0) return {x, depth / 2};
  at::Tensor even = at::zeros({x.size(0), depth + 1}, x.options());
  even.narrow(1, 0, depth).copy_(x);
  return {even, (depth + 1) / 2};
}

}  // namespace penstock::ops::bf16
