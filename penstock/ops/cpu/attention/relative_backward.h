// The backward pass of attention with relative positions, for any kind of products. It recomputes
// the weights of a strip from the scores and the rows' logsumexp. With p = exp(s − lse),
// D_t = dy_t·y_t and ds = p (dy·value − D)·scale:
//   dvalue_j += p·dy,  dk_j += ds·(q + u),  dr_δ += ds·(q + v),
//   d(q + u)_t += ds·k,  d(q + v)_t += ds·r
// The products are in f32 in relative_backward.cpp, and in bf16 in bf16/relative_backward.cpp.
#pragma once

#include <ATen/ATen.h>

#include "penstock/ops/cpu/attention/attention_tiles.h"
#include "penstock/ops/cpu/attention/relative_strips.h"
#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/rows.h"

namespace penstock::ops::cpu::relative {

/// One thread's memory that all kinds of products need.
struct BackwardWork {
  BackwardWork(const Shape& shape, attention::Scratch::Cursor& cursor) {
    for (float** part : {&d_keys, &d_values}) *part = cursor.take(shape.padded_keys() * shape.hd);
    for (float** part : {&strip, &d_strip}) {
      *part = cursor.take(shape.strip());
      std::fill_n(*part, shape.strip(),
                  0.0f);  // products add to one margin and read the other as zeros
    }
    for (float** part : {&content, &position, &d_content, &d_position, &dy})
      *part = cursor.take(kRows * shape.hd);
  }
  static std::int64_t size(const Shape& shape) {
    return 2 * shape.padded_keys() * shape.hd + 2 * shape.strip() + 5 * round_up(kRows * shape.hd);
  }
  float *d_keys, *d_values;                                 ///< [padded, hd]
  float *strip, *d_strip;                                   ///< [kRows, stride]
  float *content, *position, *d_content, *d_position, *dy;  ///< [kRows, hd]
};

/// A task is a head and a part of the batch. The tasks' gradients of r, u and v are summed at the
/// end, in order. `Products` has
///   Work, a BackwardWork with the products' operands;
///   distances(): the rows of its gradient by distance;
///   farthest(): the row of the farthest distance. Each row after it is one distance nearer;
///   take_head(x, work): converts keys and values of one head of one sequence; work.d_values is
///     free as scratch;
///   scores(h, block, work): writes the scores to work.strip, and dy·value to work.d_strip;
///   gradients(h, block, work, d_distances): computes all five sums from the weights in work.strip
///     and ds in work.d_strip.
template <class Products>
class BackwardPass {
 public:
  BackwardPass(const RelativeProblem& problem, const at::Tensor& grad, const at::Tensor& y,
               const at::Tensor& logsumexp)
      : shape_(problem),
        scale_(static_cast<float>(problem.scale)),
        q_(problem.q.contiguous()),
        kv_(problem.kv.contiguous()),
        u_(problem.u.contiguous()),
        v_(problem.v.contiguous()),
        grad_(grad.contiguous()),
        y_(y.contiguous()),
        logsumexp_(logsumexp.contiguous()),
        products_(shape_, problem.r.contiguous()),
        dq_(at::empty_like(q_)),
        dkv_(at::empty_like(kv_)) {}

  RelativeGradient run() {
    const std::int64_t parts = shape_.parts(), hd = shape_.hd, distances = products_.distances();
    const auto options = q_.options();
    const at::Tensor dr = at::zeros({parts, shape_.heads, distances, hd}, options),
                     du = at::zeros({parts, shape_.heads, hd}, options), dv = at::zeros_like(du);
    const attention::Scratch scratch(Work::size(shape_));
    parallel_ranges(shape_.heads * parts, 1, [&](std::int64_t begin, std::int64_t end) {
      Work work(shape_, scratch.mine());
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t h = task / parts, part = task % parts, at = part * shape_.heads + h;
        const Sums sums{dr.data_ptr<float>() + at * distances * hd, du.data_ptr<float>() + at * hd,
                        dv.data_ptr<float>() + at * hd};
        for (std::int64_t b = shape_.batch * part / parts; b < shape_.batch * (part + 1) / parts;
             ++b)
          sequence(b, h, work, sums);
      }
    });
    // Restores the order of distances and removes the padding.
    const at::Tensor forwards =
        dr.sum(0).narrow(1, products_.farthest(), shape_.keys).flip(1);  // [H, K, hd]
    return {dq_, dkv_, forwards.transpose(0, 1).reshape({shape_.keys, shape_.width()}), du.sum(0),
            dv.sum(0)};
  }

 private:
  using Work = typename Products::Work;
  /// Gradients that a task sums over its sequences.
  struct Sums {
    float *r, *u, *v;  ///< r [distances, hd], in packed order; u and v [hd]
  };

  void sequence(std::int64_t b, std::int64_t h, Work& work, const Sums& sums) {
    const std::int64_t hd = shape_.hd, padded = shape_.padded_keys();
    const KeyValues x = shape_.head_of(kv_, b, h);
    products_.take_head(x, work);
    std::fill_n(work.d_keys, padded * hd, 0.0f);
    std::fill_n(work.d_values, padded * hd, 0.0f);
    for (std::int64_t first = 0; first < shape_.length; first += kRows)
      rows(b, h, Block(shape_, first), work, sums);
    float* const to = dkv_.data_ptr<float>() + (x.keys - kv_.data_ptr<float>());
    for (std::int64_t j = 0; j < shape_.keys; ++j) {
      std::copy_n(work.d_keys + j * hd, hd, to + j * x.stride);
      std::copy_n(work.d_values + j * hd, hd, to + j * x.stride + shape_.width());
    }
  }

  void rows(std::int64_t b, std::int64_t h, const Block& block, Work& work, const Sums& sums) {
    const std::int64_t hd = shape_.hd, width = shape_.width(), rows = block.rows;
    const std::int64_t at = (b * shape_.length + block.first) * width + h * hd;
    add_biases(rows, hd, q_.data_ptr<float>() + at, width, u_.data_ptr<float>() + h * hd,
               v_.data_ptr<float>() + h * hd, work.content, work.position);
    for (std::int64_t p = 0; p < rows; ++p)
      std::copy_n(grad_.data_ptr<float>() + at + p * width, hd, work.dy + p * hd);
    products_.scores(h, block, work);
    const float* const lse =
        logsumexp_.data_ptr<float>() + (b * shape_.heads + h) * shape_.length + block.first;
    for (std::int64_t p = 0; p < rows; ++p)
      slope_row(block.reads(p), block.columns, scale_, lse[p],
                dot(hd, work.dy + p * hd, y_.data_ptr<float>() + at + p * width),
                by_key(work.strip) + p * shape_.stride(),
                by_key(work.d_strip) + p * shape_.stride());
    products_.gradients(h, block, work, sums.r);
    add_rows(rows, hd, work.d_content, sums.u);
    add_rows(rows, hd, work.d_position, sums.v);
    for (std::int64_t p = 0; p < rows; ++p) {
      float* const to = dq_.data_ptr<float>() + at + p * width;
      scaled_row(hd, 1.0f, work.d_content + p * hd, false, to);
      scaled_row(hd, 1.0f, work.d_position + p * hd, true, to);
    }
  }

  Shape shape_;
  float scale_;
  at::Tensor q_, kv_, u_, v_, grad_, y_, logsumexp_;
  Products products_;
  at::Tensor dq_, dkv_;
};

}  // namespace penstock::ops::cpu::relative
