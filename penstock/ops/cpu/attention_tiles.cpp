#include "penstock/ops/cpu/attention_tiles.h"

#include <ATen/ATen.h>

namespace penstock::ops::cpu::attention {

static_assert(kKeys == 2 * kRows, "TileProducts lists the widths that occur");

at::Tensor readable(const at::Tensor& x) {
  const bool dense = x.size(3) == 1 || x.stride(3) == 1;
  return dense && (x.size(1) == 1 || x.stride(1) >= x.size(3)) ? x : x.contiguous();
}

View view(const at::Tensor& x) {
  // The stride of a single row means nothing, but has to be a valid one.
  return {.data = x.data_ptr<float>(),
          .batch_stride = x.stride(0),
          .row_stride = x.size(1) == 1 ? x.size(3) : x.stride(1),
          .head_stride = x.stride(2)};
}

Block block_at(std::int64_t first, std::int64_t length, const std::int64_t* start) {
  const std::int64_t last = std::min(first + kRows, length);
  std::int64_t low = 0;
  if (start) low = *std::min_element(start + first, start + last) / kKeys * kKeys;
  return {.first = first, .last = last, .low = low};
}

void pack_transposed(const float* x, std::int64_t row_stride, std::int64_t length, std::int64_t hd,
                     float scale, float* out) {
  constexpr std::int64_t kBatch = 16;  // rows read together: one cache line of each output row
  for (std::int64_t s = 0; s < length; s += kBatch) {
    const std::int64_t count = std::min(kBatch, length - s);
    float* tile = out + s / kKeys * kKeys * hd + s % kKeys;
    for (std::int64_t i = 0; i < hd; ++i)
      for (std::int64_t j = 0; j < count; ++j)
        tile[i * kKeys + j] = scale * x[(s + j) * row_stride + i];
  }
}

void pack_rows(const float* x, std::int64_t row_stride, std::int64_t length, std::int64_t hd,
               float* out) {
  for (std::int64_t t = 0; t < length; ++t) std::copy_n(x + t * row_stride, hd, out + t * hd);
}

void unpack_rows(const float* packed, std::int64_t length, std::int64_t hd, float* x,
                 std::int64_t row_stride) {
  for (std::int64_t t = 0; t < length; ++t) std::copy_n(packed + t * hd, hd, x + t * row_stride);
}

}  // namespace penstock::ops::cpu::attention
