#include "penstock/models/decoder_cache.h"

#include <torch/types.h>

#include <cmath>

#include "penstock/base/error.h"
#include "penstock/base/memory.h"
#include "penstock/ops/ops.h"

namespace penstock {

DecoderCache::DecoderCache(const ModelConfig& config, std::int64_t sequences, std::int64_t capacity,
                           const at::TensorOptions& options)
    : capacity_(capacity) {
  PENSTOCK_ASSERT(config.is_resolved());
  PENSTOCK_CHECK(sequences > 0 && capacity > 0, "[decoder] a cache of ", sequences,
                 " sequences of ", capacity, " tokens holds nothing");
  // Floating point, because the product of absurd sizes must not wrap.
  const double bytes = 2.0 * static_cast<double>(config.layers) * static_cast<double>(sequences) *
                       static_cast<double>(capacity) *
                       static_cast<double>(config.kv_heads * config.head_dim) *
                       static_cast<double>(options.dtype().itemsize());
  PENSTOCK_CHECK(bytes < usable_memory_bytes(), "[decoder] a cache for ", sequences,
                 " sequences of ", capacity, " tokens takes ", std::ceil(bytes / (1 << 30)),
                 " GiB, more memory than there is; ask for fewer tokens or texts");
  const at::TensorOptions plain = options.requires_grad(false);
  lengths_.resize(static_cast<std::size_t>(sequences));
  rotation_ = ops::rotation_table(capacity, config.head_dim, config.rope_base, plain);
  const std::vector<std::int64_t> shape{sequences, capacity, config.kv_heads, config.head_dim};
  for (std::int64_t i = 0; i < config.layers; ++i)
    layers_.push_back({.keys = torch::empty(shape, plain), .values = torch::empty(shape, plain)});
}

void DecoderCache::cut(std::int64_t row, std::int64_t length) {
  std::int64_t& held = lengths_.at(static_cast<std::size_t>(row));
  PENSTOCK_ASSERT(length >= 0 && length <= held, length, " of ", held);
  held = length;
}

CachedRows DecoderCache::at(std::span<const std::int64_t> rows, std::int64_t count) const {
  CachedRows out{.rows = torch::empty({std::ssize(rows)}, torch::kLong),
                 .lengths = torch::empty({std::ssize(rows)}, torch::kLong),
                 .rotation = rotation_,
                 .count = count};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    PENSTOCK_CHECK(rows[i] >= 0 && rows[i] < sequences(), "[decoder] sequence ", rows[i],
                   " of a cache of ", sequences());
    PENSTOCK_CHECK(length(rows[i]) <= capacity_ - count, "[decoder] ", count, " tokens after ",
                   length(rows[i]), " are more than the ", capacity_, " of the cache");
    out.rows.data_ptr<std::int64_t>()[i] = rows[i];
    out.lengths.data_ptr<std::int64_t>()[i] = length(rows[i]);
  }
  return out;
}

std::vector<CachedRows> DecoderCache::at(std::span<const CachePart> parts) const {
  std::vector<bool> named(lengths_.size());
  std::vector<CachedRows> out;
  for (std::size_t first = 0; first < parts.size();) {
    const std::int64_t count = parts[first].count;
    PENSTOCK_CHECK(count > 0, "[decoder] a part of ", count, " tokens");
    std::vector<std::int64_t> rows;
    for (; first < parts.size() && parts[first].count == count; ++first)
      rows.push_back(parts[first].row);
    out.push_back(at(rows, count));
    for (const std::int64_t row : rows) {
      PENSTOCK_CHECK(!named[static_cast<std::size_t>(row)], "[decoder] sequence ", row,
                     " is named twice");
      named[static_cast<std::size_t>(row)] = true;
    }
  }
  return out;
}

void DecoderCache::copy(std::int64_t from, std::int64_t to, std::int64_t length) {
  PENSTOCK_ASSERT(from != to && length <= this->length(from));
  for (const AttentionCache& layer : layers_)
    for (const at::Tensor& all : {layer.keys, layer.values})
      all[to].narrow(0, 0, length).copy_(all[from].narrow(0, 0, length));
  lengths_.at(static_cast<std::size_t>(to)) = length;
}

void DecoderCache::advance(std::span<const std::int64_t> rows, std::int64_t count) {
  for (const std::int64_t row : rows) lengths_.at(static_cast<std::size_t>(row)) += count;
}

}  // namespace penstock
