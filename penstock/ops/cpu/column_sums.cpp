#include "penstock/ops/cpu/column_sums.h"

#include <ATen/ATen.h>

#include "penstock/ops/cpu/parallel.h"

namespace penstock::ops::cpu {

at::Tensor column_sums(const at::Tensor& x) {
  const std::int64_t rows = x.size(0), columns = x.size(1);
  at::Tensor sums = at::zeros({columns}, x.options());
  const float* in = x.data_ptr<float>();
  float* out = sums.data_ptr<float>();
  parallel_ranges(columns, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = begin; j < end; ++j) out[j] += in[i * columns + j];
  });
  return sums;
}

}  // namespace penstock::ops::cpu
