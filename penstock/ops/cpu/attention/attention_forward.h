// Causal attention's forward pass of whole sequences, one block of rows after another, for any kind
// of products (attention_blocks.h).
#pragma once

#include <ATen/ATen.h>

#include "penstock/ops/causal_attention.h"
#include "penstock/ops/cpu/attention/attention_blocks.h"
#include "penstock/ops/cpu/attention/attention_heads.h"
#include "penstock/ops/cpu/parallel.h"

namespace penstock::ops::cpu::attention {

template <class Products>
AttentionResult forward_pass(const at::Tensor& qkv_in, const AttentionOptions& options) {
  const auto qkv = qkv_in.contiguous();
  const Shape shape(qkv, options);
  auto y = at::empty({shape.batch, shape.length, shape.heads * shape.hd}, qkv.options());
  auto logsumexp = at::empty({shape.batch, shape.heads, shape.length}, qkv.options());
  if (y.numel() == 0) return {y, logsumexp};

  const PackedHeads from(shape, qkv, options);
  const RowStarts starts(shape, options);
  const float scale = static_cast<float>(options.scale) * kLog2E;
  float* const out = y.data_ptr<float>();
  float* const lse = logsumexp.data_ptr<float>();
  const Products products(shape);
  using Work = typename Products::Work;
  const Scratch scratch(Work::size(shape));
  parallel_ranges(shape.batch * shape.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    Work work(shape, scratch.mine());
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t b = task / shape.kv_heads, kv = task % shape.kv_heads;
      from.pack_keys(b, kv, scale, work.keys);
      from.pack_values(b, kv, work.values);
      products.take_heads(work);
      for (std::int64_t first = 0; first < shape.length; first += shape.positions) {
        const Block block(shape, first, starts.of(b));
        work.limits.set(block, starts.of(b));
        from.pack_queries(b, kv, block, work.rows);
        products.take_queries(block, work);
        const std::int64_t h = kv * shape.group;
        const HeadRows rows{.stride = shape.heads * shape.hd, .heads = shape.group, .hd = shape.hd};
        float* const to = out + ((b * shape.length + first) * shape.heads + h) * shape.hd;
        from.prefetch_next(b, kv, block);
        prefetch_rows(rows, to, block.positions(), true);
        attend(shape, products, block, work);
        unpack_rows(rows, work.rows, first, block.positions(), 1.0f, to, work.total);
        for (std::int64_t g = 0; g < shape.group; ++g)
          for (std::int64_t p = 0; p < block.positions(); ++p)
            lse[(b * shape.heads + h + g) * shape.length + first + p] =
                work.most[p * shape.group + g];
      }
    }
  });
  return {y, logsumexp};
}

}  // namespace penstock::ops::cpu::attention
