#include "penstock/ops/precision.h"

#include <ATen/ATen.h>

#include <atomic>

#include "penstock/ops/cpu/bf16/rounding.h"

namespace penstock::ops {
namespace {

thread_local ProductPrecision precision = ProductPrecision::fp32;
std::atomic<bool> emulation{false};

}  // namespace

ProductPrecision product_precision() { return precision; }

PrecisionScope::PrecisionScope(ProductPrecision of_products) : before_(precision) {
  precision = of_products;
}
PrecisionScope::~PrecisionScope() { precision = before_; }

bool processor_has_bf16() {
#if defined(__x86_64__)
  static const bool has =
      __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw");
  return has;
#else
  return false;
#endif
}

bool emulates_bf16() { return emulation.load(std::memory_order_relaxed); }
void emulate_bf16(bool emulate) { emulation = emulate; }

at::Tensor product_operand(const at::Tensor& x) {
  if (precision != ProductPrecision::bf16 || x.scalar_type() != at::kFloat) return x;
  const at::Tensor from = x.detach();
  return from.is_cpu() ? bf16::rounded(from.contiguous()) : from.to(at::kBFloat16);
}

at::Tensor rounded_like(const at::Tensor& operand, const at::Tensor& x) {
  return operand.scalar_type() == at::kBFloat16 ? x.to(at::kBFloat16).to(at::kFloat) : x;
}

}  // namespace penstock::ops
