// Attention with relative positions, forward, in f32: block by block of rows, the whole strip of
// scores, its softmax, and the product with the values. Threads divide (head, sequence) pairs.
#include <ATen/ATen.h>

#include "penstock/ops/cpu/attention/attention_tiles.h"
#include "penstock/ops/cpu/attention/relative_strips.h"
#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/rows.h"

namespace penstock::ops::cpu {
namespace {

using namespace relative;

struct ForwardProducts {
  explicit ForwardProducts(const relative::Shape& shape)
      : content(strip_products(shape, shape.padded_keys(), false)),
        position(strip_products(shape, shape.distances(), true)),
        values(relative::row_products(shape, false)) {}
  ChunkProducts content, position, values;
};

/// One thread's memory.
struct ForwardWork {
  ForwardWork(const relative::Shape& shape, attention::Scratch::Cursor cursor)
      : keys(cursor.take(shape.padded_keys() * shape.hd)),
        values(cursor.take(shape.padded_keys() * shape.hd)),
        strip(cursor.take(shape.strip())),
        content(cursor.take(kRows * shape.hd)),
        position(cursor.take(kRows * shape.hd)),
        out(cursor.take(kRows * shape.hd)) {
    std::fill_n(strip, shape.strip(), 0.0f);  // what margins hold is added to
  }
  static std::int64_t size(const relative::Shape& shape) {
    return 2 * shape.padded_keys() * shape.hd + shape.strip() + 3 * kRows * shape.hd + 6 * kStep;
  }
  float *keys, *values;             ///< [hd, padded], [padded, hd]
  float* strip;                     ///< [kRows, stride]
  float *content, *position, *out;  ///< [kRows, hd]
};

}  // namespace

RelativeResult relative_attention(const RelativeProblem& problem) {
  const relative::Shape shape(problem);
  const at::Tensor q = problem.q.contiguous(), kv = problem.kv.contiguous(),
                   r = problem.r.contiguous(), u = problem.u.contiguous(),
                   v = problem.v.contiguous();
  at::Tensor y = at::empty_like(q);
  at::Tensor logsumexp = at::empty({shape.batch, shape.heads, shape.length}, q.options());
  if (y.numel() == 0) return {y, logsumexp};
  const PackedDistances distances(shape, r, false);
  const ForwardProducts products(shape);
  const attention::Scratch scratch(ForwardWork::size(shape));
  const std::int64_t hd = shape.hd, width = shape.width();
  const auto scale = static_cast<float>(problem.scale);
  const float* const from = kv.data_ptr<float>();
  float* const lse = logsumexp.data_ptr<float>();
  parallel_ranges(shape.heads * shape.batch, 1, [&](std::int64_t begin, std::int64_t end) {
    ForwardWork work(shape, scratch.mine());
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t h = task / shape.batch, b = task % shape.batch;
      const float* const keys = from + b * shape.keys * 2 * width + h * hd;
      const float* const by_column =
          distances.columns.data_ptr<float>() + h * hd * shape.distances();
      pack_keys(shape, keys, 2 * width, nullptr, work.keys, work.values);
      pack_keys(shape, keys + width, 2 * width, work.values, nullptr, nullptr);
      for (std::int64_t first = 0; first < shape.length; first += kRows) {
        const relative::Block block(shape, first);
        const std::int64_t at = (b * shape.length + first) * width + h * hd;
        add_biases(block.rows, hd, q.data_ptr<float>() + at, width, u.data_ptr<float>() + h * hd,
                   v.data_ptr<float>() + h * hd, work.content, work.position);
        each_chunk(block, [&](std::int64_t c, std::int64_t n) {
          products.content.at(block.rows, n)(work.content, work.keys + c, by_key(work.strip) + c);
        });
        each_chunk(block, [&](std::int64_t c, std::int64_t n) {
          products.position.at(block.rows, n)(work.position, by_column + block.distance + c,
                                              by_distance(block, work.strip) + c);
        });
        float total[kRows];
        for (std::int64_t p = 0; p < block.rows; ++p)
          total[p] = softmax_row(block.reads(p), block.columns, scale,
                                 by_key(work.strip) + p * shape.stride(),
                                 lse + (b * shape.heads + h) * shape.length + first + p);
        std::fill_n(work.out, block.rows * hd, 0.0f);
        each_chunk(block, [&](std::int64_t c, std::int64_t n) {
          products.values.at(block.rows, n)(by_key(work.strip) + c, work.values + c * hd, work.out);
        });
        for (std::int64_t p = 0; p < block.rows; ++p)
          scaled_row(hd, 1 / total[p], work.out + p * hd, false,
                     y.data_ptr<float>() + at + p * width);
      }
    }
  });
  return {y, logsumexp};
}

}  // namespace penstock::ops::cpu
