// Attention with relative positions, backward, in f32. The weights of a strip come back from the
// scores and the rows' logsumexp; with p = exp(s − lse), D_t = dy_t·y_t, ds = p (dy·value −
// D)·scale:
//   dvalue_j += p·dy,  dk_j += ds·(q + u),  dr_δ += ds·(q + v),
//   d(q + u)_t += ds·k,  d(q + v)_t += ds·r
// A task is a head and a part of the batch, whose gradients of r, u and v are summed at the end, in
// order.
#include <ATen/ATen.h>

#include "penstock/ops/cpu/attention/attention_tiles.h"
#include "penstock/ops/cpu/attention/relative_strips.h"
#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/rows.h"

namespace penstock::ops::cpu {
namespace {

using namespace relative;

struct BackwardProducts {
  explicit BackwardProducts(const relative::Shape& shape)
      : content(strip_products(shape, shape.padded_keys(), false)),
        position(strip_products(shape, shape.distances(), true)),
        d_content(relative::row_products(shape, false)),
        d_position(relative::row_products(shape, true)),
        d_keys(column_products(shape, false)),
        d_distances(column_products(shape, true)) {}
  ChunkProducts content, position, d_content, d_position, d_keys, d_distances;
};

/// One thread's memory.
struct BackwardWork {
  BackwardWork(const relative::Shape& shape, attention::Scratch::Cursor cursor) {
    for (float** part : {&keys, &keys_t, &values_t, &d_keys, &d_values})
      *part = cursor.take(shape.padded_keys() * shape.hd);
    for (float** part : {&strip, &d_strip}) {
      *part = cursor.take(shape.strip());
      std::fill_n(*part, shape.strip(), 0.0f);  // the margins: added to, and read as zeros
    }
    for (float** part : {&content, &position, &d_content, &d_position, &dy})
      *part = cursor.take(kRows * shape.hd);
  }
  static std::int64_t size(const relative::Shape& shape) {
    return 5 * shape.padded_keys() * shape.hd + 2 * shape.strip() + 5 * kRows * shape.hd +
           12 * kStep;
  }
  float *keys, *keys_t, *values_t, *d_keys, *d_values;  ///< [padded, hd], transposed [hd, padded]
  float *strip, *d_strip;                               ///< [kRows, stride]
  float *content, *position, *d_content, *d_position, *dy;  ///< [kRows, hd]
};

/// Gradients that a task sums over its sequences.
struct TaskSums {
  float *r, *u, *v;  ///< [distances, hd], backwards; [hd]
};

class RelativeBackward {
 public:
  RelativeBackward(const RelativeProblem& problem, const at::Tensor& grad, const at::Tensor& y,
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
        distances_(shape_, problem.r.contiguous(), true),
        products_(shape_),
        dq_(at::empty_like(q_)),
        dkv_(at::empty_like(kv_)) {}

  RelativeGradient run() {
    const std::int64_t parts = shape_.parts(), hd = shape_.hd;
    const auto options = q_.options();
    const at::Tensor dr = at::zeros({parts, shape_.heads, shape_.distances(), hd}, options),
                     du = at::zeros({parts, shape_.heads, hd}, options), dv = at::zeros_like(du);
    const attention::Scratch scratch(BackwardWork::size(shape_));
    parallel_ranges(shape_.heads * parts, 1, [&](std::int64_t begin, std::int64_t end) {
      BackwardWork work(shape_, scratch.mine());
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t h = task / parts, part = task % parts, at = part * shape_.heads + h;
        const TaskSums sums{dr.data_ptr<float>() + at * shape_.distances() * hd,
                            du.data_ptr<float>() + at * hd, dv.data_ptr<float>() + at * hd};
        for (std::int64_t b = shape_.batch * part / parts; b < shape_.batch * (part + 1) / parts;
             ++b)
          sequence(b, h, work, sums);
      }
    });
    // The packed order back to distances, and the padding off.
    const at::Tensor forwards = dr.sum(0).narrow(1, 0, shape_.keys).flip(1);  // [H, K, hd]
    return {dq_, dkv_, forwards.transpose(0, 1).reshape({shape_.keys, shape_.width()}), du.sum(0),
            dv.sum(0)};
  }

 private:
  void sequence(std::int64_t b, std::int64_t h, BackwardWork& work, const TaskSums& sums) {
    const std::int64_t hd = shape_.hd, width = shape_.width(), padded = shape_.padded_keys();
    const std::int64_t at = b * shape_.keys * 2 * width + h * hd;
    const float* const keys = kv_.data_ptr<float>() + at;
    pack_keys(shape_, keys, 2 * width, work.keys, work.keys_t, nullptr);
    pack_keys(shape_, keys + width, 2 * width, nullptr, work.values_t, work.d_values);
    std::fill_n(work.d_keys, padded * hd, 0.0f);
    std::fill_n(work.d_values, padded * hd, 0.0f);
    for (std::int64_t first = 0; first < shape_.length; first += kRows)
      rows(b, h, relative::Block(shape_, first), work, sums);
    float* const to = dkv_.data_ptr<float>() + at;
    for (std::int64_t j = 0; j < shape_.keys; ++j) {
      std::copy_n(work.d_keys + j * hd, hd, to + j * 2 * width);
      std::copy_n(work.d_values + j * hd, hd, to + j * 2 * width + width);
    }
  }

  void rows(std::int64_t b, std::int64_t h, const relative::Block& block, BackwardWork& work,
            const TaskSums& sums) {
    const std::int64_t hd = shape_.hd, width = shape_.width(), rows = block.rows;
    const std::int64_t at = (b * shape_.length + block.first) * width + h * hd;
    const float* const by_row = distances_.rows.data_ptr<float>() + h * shape_.distances() * hd;
    const float* const by_column =
        distances_.columns.data_ptr<float>() + h * hd * shape_.distances();
    add_biases(rows, hd, q_.data_ptr<float>() + at, width, u_.data_ptr<float>() + h * hd,
               v_.data_ptr<float>() + h * hd, work.content, work.position);
    for (std::int64_t p = 0; p < rows; ++p)
      std::copy_n(grad_.data_ptr<float>() + at + p * width, hd, work.dy + p * hd);
    each_chunk(block, [&](std::int64_t c, std::int64_t n) {
      products_.content.at(rows, n)(work.content, work.keys_t + c, by_key(work.strip) + c);
      products_.content.at(rows, n)(work.dy, work.values_t + c, by_key(work.d_strip) + c);
    });
    each_chunk(block, [&](std::int64_t c, std::int64_t n) {
      products_.position.at(rows, n)(work.position, by_column + block.distance + c,
                                     by_distance(block, work.strip) + c);
    });
    const float* const lse =
        logsumexp_.data_ptr<float>() + (b * shape_.heads + h) * shape_.length + block.first;
    for (std::int64_t p = 0; p < rows; ++p)
      slope_row(block.reads(p), block.columns, scale_, lse[p],
                dot(hd, work.dy + p * hd, y_.data_ptr<float>() + at + p * width),
                by_key(work.strip) + p * shape_.stride(),
                by_key(work.d_strip) + p * shape_.stride());
    std::fill_n(work.d_content, rows * hd, 0.0f);
    std::fill_n(work.d_position, rows * hd, 0.0f);
    each_chunk(block, [&](std::int64_t c, std::int64_t n) {
      float* const slopes = by_key(work.d_strip) + c;
      float* const shifted = by_distance(block, work.d_strip) + c;
      const std::int64_t distance = (block.distance + c) * hd;
      products_.d_keys.at(rows, n)(by_key(work.strip) + c, work.dy, work.d_values + c * hd);
      products_.d_keys.at(rows, n)(slopes, work.content, work.d_keys + c * hd);
      products_.d_content.at(rows, n)(slopes, work.keys + c * hd, work.d_content);
      products_.d_position.at(rows, n)(shifted, by_row + distance, work.d_position);
      products_.d_distances.at(rows, n)(shifted, work.position, sums.r + distance);
    });
    add_rows(rows, hd, work.d_content, sums.u);
    add_rows(rows, hd, work.d_position, sums.v);
    for (std::int64_t p = 0; p < rows; ++p) {
      float* const to = dq_.data_ptr<float>() + at + p * width;
      scaled_row(hd, 1.0f, work.d_content + p * hd, false, to);
      scaled_row(hd, 1.0f, work.d_position + p * hd, true, to);
    }
  }

  relative::Shape shape_;
  float scale_;
  at::Tensor q_, kv_, u_, v_, grad_, y_, logsumexp_;
  PackedDistances distances_;
  BackwardProducts products_;
  at::Tensor dq_, dkv_;
};

}  // namespace

RelativeGradient relative_attention_backward(const at::Tensor& grad, const RelativeProblem& problem,
                                             const at::Tensor& y, const at::Tensor& logsumexp) {
  if (problem.q.numel() == 0)
    return reference::relative_attention_backward(grad, problem, y, logsumexp);
  return RelativeBackward(problem, grad, y, logsumexp).run();
}

}  // namespace penstock::ops::cpu
