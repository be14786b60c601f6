// What attention's forward and backward share: strided views of q, k and v, the division into
// blocks of rows and tiles of keys, and the packing of heads.
//
// Rows are taken kRows at a time against tiles of kKeys keys. Tiles start at multiples of kKeys, so
// a tile has one of at most three widths (kKeys, half of it on the diagonal, what is left at the
// end), and a block one of two heights: few shapes to compile.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <utility>

#include "penstock/ops/cpu/tile_product.h"
#include "penstock/ops/cpu/vector_math.h"

namespace penstock::ops::cpu::attention {

constexpr std::int64_t kRows = 32, kKeys = 64;

/// One head's rows of a [B, T, heads, hd] tensor with unit stride in hd.
struct View {
  float* data;
  std::int64_t batch_stride, row_stride, head_stride;
  float* head(std::int64_t b, std::int64_t h) const {
    return data + b * batch_stride + h * head_stride;
  }
};

/// The tensor, or a copy where its rows overlap or are not contiguous in hd.
at::Tensor readable(const at::Tensor& x);
View view(const at::Tensor& x);

inline std::int64_t whole_tiles(std::int64_t keys) { return (keys + kKeys - 1) / kKeys * kKeys; }
inline std::int64_t whole_vectors(std::int64_t keys) { return (keys + 15) / 16 * 16; }

/// A block of rows [first, last) and the keys [low, last) that it may read.
struct Block {
  std::int64_t first, last, low;
  std::int64_t rows() const { return last - first; }
};
/// `start` is the sequence's [T] row starts, or null.
Block block_at(std::int64_t first, std::int64_t length, const std::int64_t* start);

/// Each tile of x transposed and scaled: out [tiles, hd, kKeys].  Scratch tiles are contiguous:
/// rows far apart would share few cache sets and defeat the prefetcher.
void pack_transposed(const float* x, std::int64_t row_stride, std::int64_t length, std::int64_t hd,
                     float scale, float* out);

/// out [length, hd] = x.
void pack_rows(const float* x, std::int64_t row_stride, std::int64_t length, std::int64_t hd,
               float* out);
/// The way back.
void unpack_rows(const float* packed, std::int64_t length, std::int64_t hd, float* x,
                 std::int64_t row_stride);

/// One product for every height and width that occurs at this length.
class TileProducts {
 public:
  /// `shape(rows, width)` gives the product's shape.
  template <class Shape>
  TileProducts(std::int64_t length, const Shape& shape) {
    for (const std::int64_t rows : {std::min(kRows, length), length % kRows})
      for (const std::int64_t width : {kKeys, kKeys / 2, length % kKeys})
        if (rows > 0 && width > 0 && width <= length)
          products_.try_emplace(std::pair(rows, width), shape(rows, width));
  }
  const TileProduct& at(std::int64_t rows, std::int64_t width) const {
    return products_.find({rows, width})->second;
  }

 private:
  std::map<std::pair<std::int64_t, std::int64_t>, TileProduct> products_;
};

}  // namespace penstock::ops::cpu::attention
