// The keys and values that a decoder keeps of sequences which it reads bit by bit.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "penstock/layers/attention.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// So many further tokens of one of a cache's sequences.
struct CachePart {
  std::int64_t row, count;
};

/// Room for B sequences of up to C tokens in every layer, set aside at once; memory is taken as
/// positions are written. Grouped heads are kept once: L · 2 · B · C · G · hd numbers.
/// Sequences have lengths of their own, and begin and end apart from each other.
class DecoderCache {
 public:
  /// `options` are those of the model's parameters. REQUIRES: config is resolved.
  DecoderCache(const ModelConfig& config, std::int64_t sequences, std::int64_t capacity,
               const at::TensorOptions& options);

  std::int64_t sequences() const { return std::ssize(lengths_); }
  std::int64_t capacity() const { return capacity_; }
  std::int64_t length(std::int64_t row) const { return lengths_.at(static_cast<std::size_t>(row)); }
  /// The sequence begins anew.
  void clear(std::int64_t row) { cut(row, 0); }
  /// Only the first `length` tokens of the sequence are still there. REQUIRES: it has as many.
  void cut(std::int64_t row, std::int64_t length);

  /// What attention needs to take in `count` more tokens of each of these rows.
  /// Throws Error for rows that there are not, and where there is no room.
  CachedRows at(std::span<const std::int64_t> rows, std::int64_t count) const;
  /// The same for parts of any lengths, neighbours of one length together, in their order.
  /// Throws Error for a row that is named twice as well.
  std::vector<CachedRows> at(std::span<const CachePart> parts) const;
  /// The sequence `to` becomes the first `length` tokens of `from`, whose keys and values are
  /// copied. REQUIRES: it has as many.
  void copy(std::int64_t from, std::int64_t to, std::int64_t length);
  /// Counts what was written.
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
