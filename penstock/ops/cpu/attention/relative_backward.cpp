// Attention with relative positions, backward, in f32.
#include "penstock/ops/cpu/attention/relative_backward.h"

namespace penstock::ops::cpu {
namespace {

using namespace relative;

class RelativeBackwardProducts {
 public:
  struct Work : relative::BackwardWork {
    Work(const relative::Shape& shape, attention::Scratch::Cursor cursor)
        : BackwardWork(shape, cursor) {
      for (float** part : {&keys, &keys_t, &values_t})
        *part = cursor.take(shape.padded_keys() * shape.hd);
    }
    static std::int64_t size(const relative::Shape& shape) {
      return BackwardWork::size(shape) + 3 * shape.padded_keys() * shape.hd;
    }
    float *keys, *keys_t, *values_t;  ///< [padded, hd], transposed [hd, padded]
  };

  RelativeBackwardProducts(const relative::Shape& shape, const at::Tensor& r)
      : shape_(shape),
        distances_(shape, r, true),
        content_(strip_products(shape, shape.padded_keys(), false)),
        position_(strip_products(shape, shape.distances(), true)),
        d_content_(relative::row_products(shape, false)),
        d_position_(relative::row_products(shape, true)),
        d_keys_(column_products(shape, false)),
        d_distances_(column_products(shape, true)) {}

  std::int64_t distances() const { return shape_.distances(); }
  std::int64_t farthest() const { return 0; }

  void take_head(const KeyValues& x, Work& work) const {
    pack_keys(shape_, x.keys, x.stride, work.keys, work.keys_t, nullptr);
    pack_keys(shape_, x.values, x.stride, nullptr, work.values_t, work.d_values);
  }
  void scores(std::int64_t h, const relative::Block& block, Work& work) const {
    const std::int64_t rows = block.rows;
    const float* const by_column =
        distances_.columns.data_ptr<float>() + h * shape_.hd * shape_.distances();
    each_chunk(block, [&](std::int64_t c, std::int64_t n) {
      content_.at(rows, n)(work.content, work.keys_t + c, by_key(work.strip) + c);
      content_.at(rows, n)(work.dy, work.values_t + c, by_key(work.d_strip) + c);
    });
    each_chunk(block, [&](std::int64_t c, std::int64_t n) {
      position_.at(rows, n)(work.position, by_column + block.distance + c,
                            by_distance(block, work.strip) + c);
    });
  }
  void gradients(std::int64_t h, const relative::Block& block, Work& work,
                 float* d_distances) const {
    const std::int64_t hd = shape_.hd, rows = block.rows;
    const float* const by_row = distances_.rows.data_ptr<float>() + h * shape_.distances() * hd;
    std::fill_n(work.d_content, rows * hd, 0.0f);
    std::fill_n(work.d_position, rows * hd, 0.0f);
    each_chunk(block, [&](std::int64_t c, std::int64_t n) {
      float* const slopes = by_key(work.d_strip) + c;
      float* const shifted = by_distance(block, work.d_strip) + c;
      const std::int64_t distance = (block.distance + c) * hd;
      d_keys_.at(rows, n)(by_key(work.strip) + c, work.dy, work.d_values + c * hd);
      d_keys_.at(rows, n)(slopes, work.content, work.d_keys + c * hd);
      d_content_.at(rows, n)(slopes, work.keys + c * hd, work.d_content);
      d_position_.at(rows, n)(shifted, by_row + distance, work.d_position);
      d_distances_.at(rows, n)(shifted, work.position, d_distances + distance);
    });
  }

 private:
  relative::Shape shape_;
  PackedDistances distances_;
  ChunkProducts content_, position_, d_content_, d_position_, d_keys_, d_distances_;
};

}  // namespace

RelativeGradient relative_attention_backward(const at::Tensor& grad, const RelativeProblem& problem,
                                             const at::Tensor& y, const at::Tensor& logsumexp) {
  if (problem.q.numel() == 0)
    return reference::relative_attention_backward(grad, problem, y, logsumexp);
  return relative::BackwardPass<RelativeBackwardProducts>(problem, grad, y, logsumexp).run();
}

}  // namespace penstock::ops::cpu
