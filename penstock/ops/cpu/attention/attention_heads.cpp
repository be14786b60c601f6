#include "penstock/ops/cpu/attention/attention_heads.h"

#include <ATen/ATen.h>

#include "penstock/ops/cpu/vec16.h"

namespace penstock::ops::cpu::attention {
namespace {

/// One head: to = factor · from, with its pairs rotated by the angles; back where `sign` is −1.
template <bool adjacent>
PENSTOCK_INLINE void rotate(const float* from, float* to, const float* cos, const float* sin,
                            std::int64_t half, float factor, float sign) {
#pragma omp simd
  for (std::int64_t i = 0; i < half; ++i) {
    const std::int64_t first = adjacent ? 2 * i : i, second = adjacent ? 2 * i + 1 : i + half;
    const float a = factor * from[first], b = factor * from[second], s = sign * sin[i];
    to[first] = a * cos[i] - b * s;
    to[second] = b * cos[i] + a * s;
  }
}

/// Does what rotate<false> does, sixteen pairs at a time.  REQUIRES: half is a multiple of 16.
PENSTOCK_INLINE void rotate_vectors(const float* from, float* to, const float* cos,
                                    const float* sin, std::int64_t half, float factor, float sign) {
  for (std::int64_t i = 0; i < half; i += kLanes) {
    const Vec16 a = factor * load(from + i), b = factor * load(from + half + i);
    const Vec16 c = load(cos + i), s = sign * load(sin + i);
    store(to + i, a * c - b * s);
    store(to + half + i, b * c + a * s);
  }
}

PENSTOCK_INLINE void copy_head(const HeadRows& layout, const float* from, float* to,
                               std::int64_t position, float factor, float sign) {
  const std::int64_t hd = layout.hd, half = hd / 2;
  if (layout.rotation) {
    const float* cos = layout.rotation + position * hd;
    if (layout.adjacent)
      rotate<true>(from, to, cos, cos + half, half, factor, sign);
    else if (half % kLanes == 0)
      rotate_vectors(from, to, cos, cos + half, half, factor, sign);
    else
      rotate<false>(from, to, cos, cos + half, half, factor, sign);
  } else if (hd % kLanes == 0) {
    for (std::int64_t i = 0; i < hd; i += kLanes) store(to + i, factor * load(from + i));
  } else {
#pragma omp simd
    for (std::int64_t i = 0; i < hd; ++i) to[i] = factor * from[i];
  }
}

/// Prefetches a later position. Positions are too far apart in memory for the processor to prefetch
/// them by itself.
PENSTOCK_INLINE void prefetch_ahead(const HeadRows& layout, const float* x) {
  constexpr std::int64_t kAhead = 12;
  const float* next = x + kAhead * layout.stride;
  for (std::int64_t i = 0; i < layout.heads * layout.hd; i += kLanes) __builtin_prefetch(next + i);
}

/// Transposes 16 × 16 elements by swapping blocks of 8, 4, 2 and 1.
PENSTOCK_INLINE void transpose16(const float* from, std::int64_t from_stride, float* to,
                                 std::int64_t to_stride) {
  Vec16 x[kLanes];  // in registers, once the loops are unrolled
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < kLanes; ++i) x[i] = load(from + i * from_stride);
  const auto swap = [&x](std::int64_t step, const Int16& upper, const Int16& lower) {
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < kLanes; ++i)
      if (!(i & step)) {
        const Vec16 a = x[i], b = x[i + step];
        x[i] = __builtin_shuffle(a, b, upper);
        x[i + step] = __builtin_shuffle(a, b, lower);
      }
  };
  swap(8, Int16{0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23},
       Int16{8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31});
  swap(4, Int16{0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27},
       Int16{4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31});
  swap(2, Int16{0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29},
       Int16{2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31});
  swap(1, Int16{0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30},
       Int16{1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31});
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < kLanes; ++i) store(to + i * to_stride, x[i]);
}

}  // namespace

PENSTOCK_PER_CPU void pack_rows(const HeadRows& layout, const float* x, std::int64_t first,
                                std::int64_t positions, float factor, float* out) {
  for (std::int64_t p = 0; p < positions; ++p) {
    prefetch_ahead(layout, x + p * layout.stride);
    for (std::int64_t h = 0; h < layout.heads; ++h)
      copy_head(layout, x + p * layout.stride + h * layout.hd,
                out + (p * layout.heads + h) * layout.hd, first + p, factor, 1.0f);
  }
}

PENSTOCK_PER_CPU void unpack_rows(const HeadRows& layout, const float* packed, std::int64_t first,
                                  std::int64_t positions, float factor, float* x,
                                  const float* row_factor) {
  for (std::int64_t p = 0; p < positions; ++p)
    for (std::int64_t h = 0; h < layout.heads; ++h) {
      const std::int64_t row = p * layout.heads + h;
      copy_head(layout, packed + row * layout.hd, x + p * layout.stride + h * layout.hd, first + p,
                row_factor ? factor * row_factor[row] : factor, -1.0f);
    }
}

void prefetch_rows(const HeadRows& layout, const float* x, std::int64_t positions, bool write) {
  for (std::int64_t p = 0; p < positions; ++p, x += layout.stride)
    for (std::int64_t i = 0; i < layout.heads * layout.hd; i += kLanes)
      if (write)
        __builtin_prefetch(x + i, 1);
      else
        __builtin_prefetch(x + i, 0, 2);
}

PENSTOCK_PER_CPU void transpose(const float* x, std::int64_t rows, std::int64_t hd, float* out,
                                std::int64_t stride) {
  for (std::int64_t r = 0; r < rows; r += kLanes) {
    std::int64_t i = 0;
    for (; i + kLanes <= hd; i += kLanes)
      transpose16(x + r * hd + i, hd, out + i * stride + r, stride);
    for (; i < hd; ++i)
      for (std::int64_t j = r; j < r + kLanes; ++j) out[i * stride + j] = x[j * hd + i];
  }
}

PackedHeads::PackedHeads(const Shape& shape, const at::Tensor& qkv, const AttentionOptions& options)
    : shape_(shape), data_(qkv.data_ptr<float>()), adjacent_(options.rope_adjacent) {
  if (options.rotation.defined()) rotation_ = options.rotation.contiguous();
}

void PackedHeads::pack_queries(std::int64_t b, std::int64_t kv, const Block& block,
                               float* out) const {
  pack_rows(rows(shape_.group, true), head(b, block.first, kv * shape_.group), block.first,
            block.positions(), 1.0f, out);
  std::fill(out + block.positions() * shape_.group * shape_.hd, out + block.rows * shape_.hd, 0.0f);
}

void PackedHeads::pack_keys(std::int64_t b, std::int64_t kv, float factor, float* out) const {
  pack_rows(rows(1, true), head(b, 0, shape_.heads + kv), 0, shape_.length, factor, out);
  std::fill(out + shape_.length * shape_.hd, out + shape_.padded_length() * shape_.hd, 0.0f);
}

void PackedHeads::pack_values(std::int64_t b, std::int64_t kv, float* out) const {
  pack_rows(rows(1, false), head(b, 0, shape_.heads + shape_.kv_heads + kv), 0, shape_.length, 1.0f,
            out);
  std::fill(out + shape_.length * shape_.hd, out + shape_.padded_length() * shape_.hd, 0.0f);
}

void PackedHeads::prefetch_next(std::int64_t b, std::int64_t kv, const Block& block) const {
  const std::int64_t next = std::min(block.positions(), shape_.length - block.last);
  prefetch_rows(rows(shape_.group, false), head(b, block.last, kv * shape_.group), next, false);
  if (++kv == shape_.kv_heads) {
    kv = 0;
    if (++b == shape_.batch) return;
  }
  if (block.first == 0)
    prefetch_rows(rows(shape_.group, false), head(b, 0, kv * shape_.group), block.positions(),
                  false);
  for (const std::int64_t h : {shape_.heads + kv, shape_.heads + shape_.kv_heads + kv})
    prefetch_rows(rows(1, false), head(b, block.first, h), block.positions(), false);
}

void PackedHeads::prefetch_write(std::int64_t b, std::int64_t kv, const Block& block) const {
  prefetch_rows(rows(shape_.group, false), head(b, block.first, kv * shape_.group),
                block.positions(), true);
  for (const std::int64_t h : {shape_.heads + kv, shape_.heads + shape_.kv_heads + kv})
    prefetch_rows(rows(1, false), head(b, block.first, h), block.positions(), true);
}

void PackedHeads::unpack_queries(std::int64_t b, std::int64_t kv, const Block& block, float factor,
                                 const float* from) const {
  unpack_rows(rows(shape_.group, true), from, block.first, block.positions(), factor,
              head(b, block.first, kv * shape_.group));
}

void PackedHeads::unpack_keys(std::int64_t b, std::int64_t kv, float factor,
                              const float* from) const {
  unpack_rows(rows(1, true), from, 0, shape_.length, factor, head(b, 0, shape_.heads + kv));
}

void PackedHeads::unpack_values(std::int64_t b, std::int64_t kv, const float* from) const {
  unpack_rows(rows(1, false), from, 0, shape_.length, 1.0f,
              head(b, 0, shape_.heads + shape_.kv_heads + kv));
}

}  // namespace penstock::ops::cpu::attention
