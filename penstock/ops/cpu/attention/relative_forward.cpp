// Attention with relative positions, forward, in f32.
#include "penstock/ops/cpu/attention/relative_forward.h"

namespace penstock::ops::cpu {
namespace {

using namespace relative;

class RelativeForwardProducts {
 public:
  struct Work : relative::ForwardWork {
    Work(const relative::Shape& shape, attention::Scratch::Cursor cursor)
        : ForwardWork(shape, cursor),
          keys(cursor.take(shape.padded_keys() * shape.hd)),
          values(cursor.take(shape.padded_keys() * shape.hd)) {}
    static std::int64_t size(const relative::Shape& shape) {
      return ForwardWork::size(shape) + 2 * shape.padded_keys() * shape.hd;
    }
    float *keys, *values;  ///< [hd, padded], [padded, hd]
  };

  RelativeForwardProducts(const relative::Shape& shape, const at::Tensor& r)
      : shape_(shape),
        distances_(shape, r, false),
        content_(strip_products(shape, shape.padded_keys(), false)),
        position_(strip_products(shape, shape.distances(), true)),
        values_(relative::row_products(shape, false)) {}

  void take_head(const KeyValues& x, Work& work) const {
    pack_keys(shape_, x.keys, x.stride, nullptr, work.keys, work.values);
    pack_keys(shape_, x.values, x.stride, work.values, nullptr, nullptr);
  }
  void scores(std::int64_t h, const relative::Block& block, Work& work) const {
    const float* const by_column =
        distances_.columns.data_ptr<float>() + h * shape_.hd * shape_.distances();
    each_chunk(block, [&](std::int64_t c, std::int64_t n) {
      content_.at(block.rows, n)(work.content, work.keys + c, by_key(work.strip) + c);
    });
    each_chunk(block, [&](std::int64_t c, std::int64_t n) {
      position_.at(block.rows, n)(work.position, by_column + block.distance + c,
                                  by_distance(block, work.strip) + c);
    });
  }
  void values(const relative::Block& block, Work& work) const {
    std::fill_n(work.out, block.rows * shape_.hd, 0.0f);
    each_chunk(block, [&](std::int64_t c, std::int64_t n) {
      values_.at(block.rows, n)(by_key(work.strip) + c, work.values + c * shape_.hd, work.out);
    });
  }

 private:
  relative::Shape shape_;
  PackedDistances distances_;
  ChunkProducts content_, position_, values_;
};

}  // namespace

RelativeResult relative_attention(const RelativeProblem& problem) {
  return relative::forward_pass<RelativeForwardProducts>(problem);
}

}  // namespace penstock::ops::cpu
