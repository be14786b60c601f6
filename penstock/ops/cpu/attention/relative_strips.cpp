#include "penstock/ops/cpu/attention/relative_strips.h"

#include <ATen/ATen.h>

#include <cmath>

#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/cpu/rows.h"
#include "penstock/ops/cpu/vector_math.h"

namespace penstock::ops::cpu::relative {

Shape::Shape(const RelativeProblem& problem)
    : batch(problem.batch()),
      length(problem.length()),
      keys(problem.keys()),
      heads(problem.heads()),
      hd(problem.head_dim()) {}

ChunkProducts strip_products(const Shape& shape, std::int64_t b_stride, bool distances) {
  return {shape, [&](std::int64_t rows, std::int64_t columns) {
            return xsmm::ProductShape{.rows = rows,
                                      .columns = columns,
                                      .depth = shape.hd,
                                      .a_stride = shape.hd,
                                      .b_stride = b_stride,
                                      .c_stride = shape.stride() + distances,
                                      .accumulate = distances};
          }};
}

ChunkProducts row_products(const Shape& shape, bool distances) {
  return {shape, [&](std::int64_t rows, std::int64_t columns) {
            return xsmm::ProductShape{.rows = rows,
                                      .columns = shape.hd,
                                      .depth = columns,
                                      .a_stride = shape.stride() + distances,
                                      .b_stride = shape.hd,
                                      .c_stride = shape.hd,
                                      .accumulate = true};
          }};
}

ChunkProducts column_products(const Shape& shape, bool distances) {
  return {shape, [&](std::int64_t rows, std::int64_t columns) {
            return xsmm::ProductShape{.rows = columns,
                                      .columns = shape.hd,
                                      .depth = rows,
                                      .a_stride = shape.stride() + distances,
                                      .b_stride = shape.hd,
                                      .c_stride = shape.hd,
                                      .transpose_a = true,
                                      .accumulate = true};
          }};
}

PackedDistances::PackedDistances(const Shape& shape, const at::Tensor& r, bool with_rows)
    : rows(at::empty({with_rows ? shape.heads : 0, shape.distances(), shape.hd}, r.options())),
      columns(at::empty({shape.heads, shape.hd, shape.distances()}, r.options())) {
  const std::int64_t padded = shape.distances(), hd = shape.hd;
  const float* from = r.data_ptr<float>();
  parallel_ranges(shape.heads, 1, [&](std::int64_t begin, std::int64_t end) {
    const at::Tensor scratch = at::empty({padded, hd}, at::kFloat);
    for (std::int64_t h = begin; h < end; ++h) {
      float* const back =
          with_rows ? rows.data_ptr<float>() + h * padded * hd : scratch.data_ptr<float>();
      for (std::int64_t c = 0; c < shape.keys; ++c)
        std::copy_n(from + (shape.keys - 1 - c) * shape.width() + h * hd, hd, back + c * hd);
      std::fill(back + shape.keys * hd, back + padded * hd, 0.0f);
      transpose(padded, hd, back, hd, columns.data_ptr<float>() + h * hd * padded, padded);
    }
  });
}

void pack_keys(const Shape& shape, const float* x, std::int64_t stride, float* rows, float* columns,
               float* scratch) {
  const std::int64_t padded = shape.padded_keys(), hd = shape.hd;
  float* const to = rows ? rows : scratch;
  for (std::int64_t j = 0; j < shape.keys; ++j) std::copy_n(x + j * stride, hd, to + j * hd);
  std::fill(to + shape.keys * hd, to + padded * hd, 0.0f);
  if (columns) transpose(padded, hd, to, hd, columns, padded);
}

PENSTOCK_PER_CPU void add_biases(std::int64_t rows, std::int64_t hd, const float* q,
                                 std::int64_t stride, const float* u, const float* v,
                                 float* content, float* position) {
  for (std::int64_t p = 0; p < rows; ++p) {
    const float* from = q + p * stride;
    float *a = content + p * hd, *b = position + p * hd;
#pragma omp simd
    for (std::int64_t i = 0; i < hd; ++i) {
      a[i] = from[i] + u[i];
      b[i] = from[i] + v[i];
    }
  }
}

namespace {

PENSTOCK_PER_CPU float largest(std::int64_t count, const float* x) {
  float most = x[0];
#pragma omp simd reduction(max : most)
  for (std::int64_t j = 0; j < count; ++j) most = x[j] > most ? x[j] : most;
  return most;
}

PENSTOCK_PER_CPU float exponentials(std::int64_t count, float scale, float offset, float* x) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < count; ++j) {
    x[j] = fast_exp(scale * x[j] - offset);
    sum += x[j];
  }
  return sum;
}

PENSTOCK_PER_CPU void slopes(std::int64_t count, float scale, float offset, float inner, float* x,
                             float* dp) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) {
    const float p = fast_exp(scale * x[j] - offset);
    x[j] = p;
    dp[j] = p * (dp[j] - inner) * scale;
  }
}

}  // namespace

float softmax_row(std::int64_t count, std::int64_t columns, float scale, float* x,
                  float* logsumexp) {
  const float most = scale * largest(count, x);
  const float sum = exponentials(count, scale, most, x);
  std::fill(x + count, x + columns, 0.0f);
  *logsumexp = most + std::log(sum);
  return sum;
}

void slope_row(std::int64_t count, std::int64_t columns, float scale, float logsumexp, float inner,
               float* x, float* dp) {
  slopes(count, scale, logsumexp, inner, x, dp);
  std::fill(x + count, x + columns, 0.0f);
  std::fill(dp + count, dp + columns, 0.0f);
}

PENSTOCK_PER_CPU void add_rows(std::int64_t rows, std::int64_t hd, const float* x, float* sums) {
  for (std::int64_t p = 0; p < rows; ++p) {
    const float* row = x + p * hd;
#pragma omp simd
    for (std::int64_t i = 0; i < hd; ++i) sums[i] += row[i];
  }
}

}  // namespace penstock::ops::cpu::relative
