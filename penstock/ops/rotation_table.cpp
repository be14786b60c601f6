// The table of rotary angles that causal_attention reads.
#include <ATen/ATen.h>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"

namespace penstock::ops {

at::Tensor rotation_table(std::int64_t length, std::int64_t head_dim, double base,
                          const at::TensorOptions& options) {
  PENSTOCK_CHECK(length >= 0 && head_dim > 0 && head_dim % 2 == 0 && base > 0,
                 "[rotation_table] needs an even head_dim and a positive base, not ", head_dim,
                 " and ", base);
  const auto wide = at::TensorOptions().dtype(at::kDouble).device(options.device());
  const auto exponent = at::arange(head_dim / 2, wide) * (-2.0 / static_cast<double>(head_dim));
  const auto angle =
      at::arange(length, wide).unsqueeze(-1) * at::pow(at::Scalar(base), exponent);  // [T, hd/2]
  return at::cat({angle.cos(), angle.sin()}, -1).to(c10::typeMetaToScalarType(options.dtype()));
}

}  // namespace penstock::ops
