#include "penstock/ops/cpu/attention_blocks.h"

#include <algorithm>

namespace penstock::ops::cpu::attention {

void attend(const Shape& shape, const ForwardProducts& products, const Block& block,
            ForwardWork& work) {
  std::fill_n(work.most, block.rows, kNothing);
  std::fill_n(work.total, block.rows, 0.0f);
  const auto step = [&](std::int64_t first, std::int64_t count) {
    const Tile tile = work.limits.tile(block, first, count);
    const bool shrinks = softmax_step(tile, work.tile, work.most, work.total, work.shrink);
    if (shrinks && first > block.low) scale_rows(work.rows, block.rows, shape.hd, work.shrink);
  };
  for (std::int64_t key = block.low; key < block.edge; key += kKeys) {
    const std::int64_t count = std::min(kKeys, block.edge - key);
    products.scores.at(count, block.rows)(work.keys + key * shape.hd, work.rows_t, work.tile);
    step(key, count);
    (key == block.low ? products.first_values : products.values)
        .at(count, block.rows)(work.tile, work.values + key * shape.hd, work.rows);
  }
  const auto chunks = [&](const auto& body) {
    for (std::int64_t key = block.edge; key < block.high; key += kChunk)
      body(key, block.skipped(key), work.tile + (key - block.edge) * shape.rows);
  };
  chunks([&](std::int64_t key, std::int64_t skipped, float* tile) {
    products.scores.at(kChunk, block.rows - skipped)(work.keys + key * shape.hd,
                                                     work.rows_t + skipped, tile + skipped);
  });
  step(block.edge, block.high - block.edge);
  chunks([&](std::int64_t key, std::int64_t skipped, float* tile) {
    (key == block.low ? products.first_values : products.values)
        .at(kChunk, block.rows - skipped)(tile + skipped, work.values + key * shape.hd,
                                          work.rows + skipped * shape.hd);
  });
  finish_rows(block.rows, work.most, work.total);
}

}  // namespace penstock::ops::cpu::attention
