// Dropout in plain ATen. 64-bit integers hold the 32-bit values of the hash.
#include "penstock/ops/dropout.h"

#include <ATen/ATen.h>

namespace penstock::ops {

at::Tensor dropout_mask(const Dropout& dropout, std::int64_t first, std::int64_t rows,
                        std::int64_t columns, const at::TensorOptions& options) {
  constexpr std::int64_t low = 0xffffffff;
  at::Tensor keys = at::empty({rows, 1}, at::kLong);
  for (std::int64_t row = 0; row < rows; ++row)
    keys.data_ptr<std::int64_t>()[row] = dropout.row_key(first + row);
  keys = keys.to(options.device());
  const at::Tensor column = at::arange(columns, keys.options());
  at::Tensor x = keys.bitwise_xor(column.mul(std::int64_t{kDropoutColumn}).bitwise_and(low));
  const auto fold = [&](std::int64_t bits) { x = x.bitwise_xor(at::__rshift__(x, bits)); };
  fold(16);
  x = x.mul(std::int64_t{kDropoutFirst}).bitwise_and(low);
  fold(15);
  x = x.mul(std::int64_t{kDropoutSecond}).bitwise_and(low);  // wraps, but the low 32 bits are right
  fold(16);
  const at::Tensor stays = at::__rshift__(x, 8).ge(static_cast<std::int64_t>(dropout.threshold()));
  return stays.to(options.dtype()).mul(1 / (1 - dropout.p));
}

namespace reference {

at::Tensor dropout(const at::Tensor& x, double p, std::int64_t seed) {
  const std::int64_t columns = x.size(-1), rows = columns > 0 ? x.numel() / columns : 0;
  return x * dropout_mask({p, seed}, 0, rows, columns, x.options()).view(x.sizes());
}

}  // namespace reference
}  // namespace penstock::ops
