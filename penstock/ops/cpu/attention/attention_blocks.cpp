#include "penstock/ops/cpu/attention/attention_blocks.h"

#include "penstock/ops/cpu/attention/attention_heads.h"

namespace penstock::ops::cpu::attention {

ForwardProducts::ForwardProducts(const Shape& shape)
    : hd_(shape.hd),
      stride_(shape.rows),
      scores_(score_products(shape)),
      first_values_(row_products(shape, false)),
      values_(row_products(shape, true)) {}

void ForwardProducts::take_queries(const Block& block, Work& work) const {
  transpose(work.rows, block.rows, hd_, work.rows_t, stride_);
}

void ForwardProducts::scores(const Block& block, const TilePart& part, Work& work) const {
  scores_.at(part.count, block.rows - part.skipped)(
      work.keys + part.key * hd_, work.rows_t + part.skipped, work.tile + part.at + part.skipped);
}

void ForwardProducts::values(const Block& block, const TilePart& part, Work& work) const {
  (part.key == block.low ? first_values_ : values_)
      .at(part.count, block.rows - part.skipped)(work.tile + part.at + part.skipped,
                                                 work.values + part.key * hd_,
                                                 work.rows + part.skipped * hd_);
}

}  // namespace penstock::ops::cpu::attention
