// Copies of heads between a packed projection [B, T, (H+2G)·hd] and blocks of contiguous rows. A
// copy to a block rotates the heads by their rotary angles; a copy back rotates them back.
// attention_tiles.h describes how rows are stacked.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "penstock/ops/cpu/attention/attention_tiles.h"
#include "penstock/ops/optional_tensor.h"

namespace penstock::ops::cpu::attention {

/// How heads of one position are laid out in memory, and how they are rotated.
struct HeadRows {
  std::int64_t stride;  ///< from position to position
  std::int64_t heads, hd;
  const float* rotation = nullptr;  ///< [T, hd] or null
  bool adjacent = false;
};
/// out [positions · heads, hd] = factor · x, rotated.  x: at position `first`.
void pack_rows(const HeadRows& layout, const float* x, std::int64_t first, std::int64_t positions,
               float factor, float* out);
/// The inverse: x = factor · packed, rotated back. Where row_factor is not null, each row is also
/// multiplied by its row_factor.
void unpack_rows(const HeadRows& layout, const float* packed, std::int64_t first,
                 std::int64_t positions, float factor, float* x, const float* row_factor = nullptr);
/// Prefetches rows that the program reads, or writes, one block of work later.
void prefetch_rows(const HeadRows& layout, const float* x, std::int64_t positions, bool write);
/// out [hd, rows] = xᵀ, x [rows, hd]; out has a row stride.  REQUIRES: rows is a multiple of 16.
void transpose(const float* x, std::int64_t rows, std::int64_t hd, float* out, std::int64_t stride);

/// The heads of a projection, or of its gradient. The packed blocks are padded with zeros.
class PackedHeads {
 public:
  /// REQUIRES: qkv is contiguous.
  PackedHeads(const Shape& shape, const at::Tensor& qkv, const AttentionOptions& options);

  /// The queries of a block's positions, for the group of key/value head kv: out [rows, hd].
  void pack_queries(std::int64_t b, std::int64_t kv, const Block& block, float* out) const;
  /// out [T, hd], padded.
  void pack_keys(std::int64_t b, std::int64_t kv, float factor, float* out) const;
  void pack_values(std::int64_t b, std::int64_t kv, float* out) const;

  /// Prefetches the data for the work after `block`: the group's next queries, and the same
  /// positions of the next group's keys and values.
  void prefetch_next(std::int64_t b, std::int64_t kv, const Block& block) const;
  /// Prefetches the memory to which the block's queries, keys and values will be written.
  void prefetch_write(std::int64_t b, std::int64_t kv, const Block& block) const;

  void unpack_queries(std::int64_t b, std::int64_t kv, const Block& block, float factor,
                      const float* from) const;
  void unpack_keys(std::int64_t b, std::int64_t kv, float factor, const float* from) const;
  void unpack_values(std::int64_t b, std::int64_t kv, const float* from) const;

 private:
  float* head(std::int64_t b, std::int64_t position, std::int64_t h) const {
    return data_ + (b * shape_.length + position) * shape_.width() + h * shape_.hd;
  }
  HeadRows rows(std::int64_t heads, bool rotated) const {
    return {.stride = shape_.width(),
            .heads = heads,
            .hd = shape_.hd,
            .rotation = rotated ? data_or_null(rotation_) : nullptr,
            .adjacent = adjacent_};
  }

  Shape shape_;
  float* data_;
  at::Tensor rotation_;
  bool adjacent_;
};

}  // namespace penstock::ops::cpu::attention
