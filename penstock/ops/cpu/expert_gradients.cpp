#include "penstock/ops/cpu/expert_gradients.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "penstock/ops/cpu/rows.h"
#include "penstock/ops/optional_tensor.h"

namespace penstock::ops::cpu {

ExpertGradient empty_gradient(const ExpertProblem& problem) {
  const auto like = [](const at::Tensor& tensor) {
    return tensor.defined() ? at::empty(tensor.sizes(), at::kFloat) : at::Tensor();
  };
  return {like(problem.hidden), like(problem.weight), like(problem.w_in),
          like(problem.w_out),  like(problem.b_in),   like(problem.b_out)};
}

WeightGradients::WeightGradients(const ExpertGradient& gradient)
    : w_in(gradient.w_in.data_ptr<float>()),
      w_out(gradient.w_out.data_ptr<float>()),
      b_in(data_or_null(gradient.b_in)),
      b_out(data_or_null(gradient.b_out)) {}

void WeightGradients::clear_biases(const ExpertViews& in, std::int64_t expert, std::int64_t first,
                                   std::int64_t last) const {
  if (first == 0 && b_out) std::fill_n(b_out + expert * in.width, in.width, 0.0f);
  for (std::int64_t i = 0; b_in && i < in.inputs; ++i)
    std::fill_n(b_in + (expert * in.inputs + i) * in.inner + first, last - first, 0.0f);
}

void WeightGradients::clear(const ExpertViews& in, std::int64_t expert) const {
  const std::int64_t matrix = in.inner * in.width;
  std::fill_n(w_in + expert * in.inputs * matrix, in.inputs * matrix, 0.0f);
  std::fill_n(w_out + expert * matrix, matrix, 0.0f);
  clear_biases(in, expert, 0, in.inner);
}

void WeightGradients::add_bias_out(const ExpertViews& in, std::int64_t expert, std::int64_t begin,
                                   std::int64_t end, const float* d_output, float* gates) const {
  const float* bias = in.bias_out(expert);
  for (std::int64_t a = begin; a < end; ++a, ++gates) {
    const float* row = d_output + in.token[a] * in.width;
    *gates = bias ? dot(in.width, bias, row) : 0.0f;
    if (bias) scaled_row(in.width, in.weight[a], row, true, b_out + expert * in.width);
  }
}

}  // namespace penstock::ops::cpu
