#include "penstock/ops/check.h"

#include <torch/torch.h>

#include "penstock/base/error.h"

namespace penstock::ops {

void check_index_range(const at::Tensor& index, std::int64_t bound, const char* op,
                       const char* what) {
  if (index.numel() == 0) return;
  const auto flat = index.detach().reshape({-1});
  if (!flat.is_cpu()) {
    PENSTOCK_CHECK(flat.ge(0).logical_and(flat.lt(bound)).all().item<bool>(), "[", op, "] a ", what,
                   " is outside [0, ", bound, ")");
    return;
  }
  const std::int64_t* data = flat.data_ptr<std::int64_t>();
  const std::int64_t stride = flat.stride(0);
  for (std::int64_t i = 0; i < flat.numel(); ++i)
    PENSTOCK_CHECK(data[i * stride] >= 0 && data[i * stride] < bound, "[", op, "] ", what, " ",
                   data[i * stride], " at position ", i, " is outside [0, ", bound, ")");
}

}  // namespace penstock::ops
