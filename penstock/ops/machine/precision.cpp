#include "penstock/ops/machine/precision.h"

#include <ATen/ATen.h>

#include "penstock/ops/cpu/bf16/rounding.h"
#include "penstock/ops/machine/product_unit.h"

namespace penstock::ops {
namespace {

thread_local ProductPrecision precision = ProductPrecision::fp32;

}  // namespace

ProductPrecision product_precision() { return precision; }
ProductPrecision product_precision(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat ? product_precision() : ProductPrecision::fp32;
}

PrecisionScope::PrecisionScope(ProductPrecision of_products) : before_(precision) {
  precision = of_products;
}
PrecisionScope::~PrecisionScope() { precision = before_; }

bool processor_has_bf16() { return available(ProductUnit::avx512) || available(ProductUnit::amx); }

void emulate_bf16(bool emulate) {
  choose_product_unit(emulate ? std::optional(ProductUnit::emulated_avx512) : std::nullopt);
}

at::Tensor product_operand(const at::Tensor& x) {
  if (precision != ProductPrecision::bf16 || x.scalar_type() != at::kFloat) return x;
  const at::Tensor from = x.detach();
  return from.is_cpu() ? bf16::rounded(from.contiguous()) : from.to(at::kBFloat16);
}

at::Tensor rounded_like(const at::Tensor& operand, const at::Tensor& x) {
  return operand.scalar_type() == at::kBFloat16 ? x.to(at::kBFloat16).to(at::kFloat) : x;
}

at::Tensor rounded_to(ProductPrecision products, const at::Tensor& x) {
  return products == ProductPrecision::bf16 ? x.to(at::kBFloat16).to(x.scalar_type()) : x;
}

}  // namespace penstock::ops
