// The forward pass of attention with relative positions, for any kind of products. For each block
// of rows it computes the whole strip of scores, its softmax, and the product with the values. The
// products are in f32 in relative_forward.cpp, and in bf16 in bf16/relative_forward.cpp.
#pragma once

#include <ATen/ATen.h>

#include "penstock/ops/cpu/attention/attention_tiles.h"
#include "penstock/ops/cpu/attention/relative_strips.h"
#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/rows.h"

namespace penstock::ops::cpu::relative {

/// One thread's memory that all kinds of products need.
struct ForwardWork {
  ForwardWork(const Shape& shape, attention::Scratch::Cursor& cursor)
      : strip(cursor.take(shape.strip())),
        content(cursor.take(kRows * shape.hd)),
        position(cursor.take(kRows * shape.hd)),
        out(cursor.take(kRows * shape.hd)) {
    std::fill_n(strip, shape.strip(), 0.0f);  // the products add to the margins
  }
  static std::int64_t size(const Shape& shape) {
    return shape.strip() + 3 * round_up(kRows * shape.hd);
  }
  float* strip;                     ///< [kRows, stride]
  float *content, *position, *out;  ///< [kRows, hd]
};

/// Divides (head, sequence) pairs among the threads. `Products` has
///   Work, a ForwardWork with the products' operands;
///   take_head(x, work): converts keys and values of one head of one sequence;
///   scores(h, block, work): computes work.strip from work.content and work.position;
///   values(block, work): work.out = the strip's weights times the values.
template <class Products>
RelativeResult forward_pass(const RelativeProblem& problem) {
  const Shape shape(problem);
  const at::Tensor q = problem.q.contiguous(), kv = problem.kv.contiguous(),
                   u = problem.u.contiguous(), v = problem.v.contiguous();
  at::Tensor y = at::empty_like(q);
  at::Tensor logsumexp = at::empty({shape.batch, shape.heads, shape.length}, q.options());
  if (y.numel() == 0) return {y, logsumexp};
  const Products products(shape, problem.r.contiguous());
  const attention::Scratch scratch(Products::Work::size(shape));
  const std::int64_t hd = shape.hd, width = shape.width();
  const auto scale = static_cast<float>(problem.scale);
  float* const lse = logsumexp.data_ptr<float>();
  parallel_ranges(shape.heads * shape.batch, 1, [&](std::int64_t begin, std::int64_t end) {
    typename Products::Work work(shape, scratch.mine());
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t h = task / shape.batch, b = task % shape.batch;
      products.take_head(shape.head_of(kv, b, h), work);
      for (std::int64_t first = 0; first < shape.length; first += kRows) {
        const Block block(shape, first);
        const std::int64_t at = (b * shape.length + first) * width + h * hd;
        add_biases(block.rows, hd, q.data_ptr<float>() + at, width, u.data_ptr<float>() + h * hd,
                   v.data_ptr<float>() + h * hd, work.content, work.position);
        products.scores(h, block, work);
        float total[kRows];
        for (std::int64_t p = 0; p < block.rows; ++p)
          total[p] = softmax_row(block.reads(p), block.columns, scale,
                                 by_key(work.strip) + p * shape.stride(),
                                 lse + (b * shape.heads + h) * shape.length + first + p);
        products.values(block, work);
        for (std::int64_t p = 0; p < block.rows; ++p)
          scaled_row(hd, 1 / total[p], work.out + p * hd, false,
                     y.data_ptr<float>() + at + p * width);
      }
    }
  });
  return {y, logsumexp};
}

}  // namespace penstock::ops::cpu::relative
