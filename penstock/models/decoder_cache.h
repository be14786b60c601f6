// The keys and values of sequences that a decoder reads in parts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "penstock/layers/attention.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// The next `count` tokens of one of a cache's sequences.
struct CachePart {
  std::int64_t row, count;
};

/// A cache for B sequences of up to C tokens in every layer. The constructor reserves all
/// addresses; the system adds pages of memory when positions are written. Grouped heads are kept
/// once: L · 2 · B · C · G · hd numbers. Each sequence has its own length, and begins and ends
/// independently.
class DecoderCache {
 public:
  /// @param options  of the model's parameters
  /// REQUIRES: config is resolved.
  DecoderCache(const ModelConfig& config, std::int64_t sequences, std::int64_t capacity,
               const at::TensorOptions& options);

  std::int64_t sequences() const { return std::ssize(lengths_); }
  std::int64_t capacity() const { return capacity_; }
  std::int64_t length(std::int64_t row) const { return lengths_.at(static_cast<std::size_t>(row)); }
  /// Empties the sequence.
  void clear(std::int64_t row) { cut(row, 0); }
  /// Cuts the sequence to its first `length` tokens. REQUIRES: it has at least `length` tokens.
  void cut(std::int64_t row, std::int64_t length);

  /// The positions where attention writes `count` more tokens of each of the rows.
  /// Throws Error for a row that does not exist or has no space left.
  CachedRows at(std::span<const std::int64_t> rows, std::int64_t count) const;
  /// The same for parts of any lengths, in their order. Neighbouring parts of equal length share
  /// one entry.
  /// Throws Error also for a row that is named twice.
  std::vector<CachedRows> at(std::span<const CachePart> parts) const;
  /// Copies keys and values of the first `length` tokens of `from` to `to`. Afterwards `to` has
  /// `length` tokens. REQUIRES: `from` has at least `length` tokens.
  void copy(std::int64_t from, std::int64_t to, std::int64_t length);
  /// Adds the written tokens to the lengths.
  void advance(std::span<const std::int64_t> rows, std::int64_t count);
  const AttentionCache& layer(std::int64_t index) const {
    return layers_[static_cast<std::size_t>(index)];
  }

 private:
  std::int64_t capacity_;
  std::vector<std::int64_t> lengths_;  // [B]
  std::vector<AttentionCache> layers_;
  at::Tensor rotation_;  // [C, hd]
};

}  // namespace penstock
