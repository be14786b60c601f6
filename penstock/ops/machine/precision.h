// The precision in which operators multiply matrices. It is a scoped setting of a thread, as
// autograd's modes are; models and layers do not know it.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <string_view>

namespace penstock::ops {

/// fp32: operands stay as they are.  bf16: linear, causal_attention, relative_attention, expert_ffn
/// and linear_cross_entropy round both operands of each product to bf16, to nearest with ties to
/// even, and sum in f32. Nothing else is rounded. f64 operands are never rounded.
enum class ProductPrecision { fp32, bf16 };
constexpr std::array<std::string_view, 2> words(ProductPrecision) { return {"fp32", "bf16"}; }

/// The precision of this thread's products, fp32 unless a PrecisionScope says otherwise.
ProductPrecision product_precision();
/// The same for products of x; always fp32 if x is not f32, because only f32 is rounded.
ProductPrecision product_precision(const at::Tensor& x);

/// Sets the precision of this thread's products while it lives. A backward pass uses the precision
/// of its forward pass, on any thread.
class PrecisionScope {
 public:
  explicit PrecisionScope(ProductPrecision precision);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  ProductPrecision before_;
};

/// Whether this processor has bf16 products (AMX, AVX512-BF16).
bool processor_has_bf16();

/// Sets whether the CPU's kernels compute bf16 products with f32 instructions. The bits are those
/// of AVX512-BF16, and the products are several times slower. Off by default; one setting for the
/// whole process.
void emulate_bf16(bool emulate);

/// x in bf16 if x is f32 and this thread's products are bf16; else x itself. Kernels choose the
/// product by the type of their operand.
at::Tensor product_operand(const at::Tensor& x);

/// x rounded to bf16, as f32, if `operand` is bf16; else x itself. For references.
at::Tensor rounded_like(const at::Tensor& operand, const at::Tensor& x);
/// x rounded to bf16, in its own type, if `products` are bf16; else x itself. For references.
at::Tensor rounded_to(ProductPrecision products, const at::Tensor& x);

}  // namespace penstock::ops
