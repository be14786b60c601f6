// Checks of operands that several operators share.
#include "penstock/ops/check.h"

#include <ATen/ATen.h>

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

void check_same_kind(std::initializer_list<at::Tensor> tensors, const char* op) {
  const at::Tensor& first = *tensors.begin();
  for (const auto& tensor : tensors) {
    if (!tensor.defined()) continue;
    PENSTOCK_CHECK(tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble, "[",
                   op, "] takes f32 or f64, not ", tensor.scalar_type(), "; convert the operand");
    PENSTOCK_CHECK(tensor.scalar_type() == first.scalar_type() && tensor.device() == first.device(),
                   "[", op, "] operands differ in type or device: ", first.scalar_type(), " on ",
                   first.device(), " and ", tensor.scalar_type(), " on ", tensor.device());
  }
}

namespace cpu {

std::string declines(std::initializer_list<at::Tensor> operands) {
  for (const auto& tensor : operands) {
    if (!tensor.defined()) continue;
    if (!tensor.is_cpu()) return "not on the CPU";
    if (tensor.scalar_type() != at::kFloat && tensor.scalar_type() != at::kLong) return "not f32";
  }
  return "";
}

std::string declines(std::initializer_list<at::Tensor> operands, ProductPrecision products) {
  return products == ProductPrecision::bf16 ? "products in bf16" : declines(operands);
}

}  // namespace cpu
}  // namespace penstock::ops
