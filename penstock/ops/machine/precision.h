// In which precision the operators multiply matrices. A setting of a thread for a while, as
// autograd's own modes are: models and layers do not know it.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <string_view>

namespace penstock::ops {

/// fp32: as the operands are.  bf16: linear, causal_attention, expert_ffn and linear_cross_entropy
/// round both operands of each product to bf16, to nearest with ties to even, and add products up
/// in f32; all else stays as it is. Of f32 operands alone; f64 is never rounded.
enum class ProductPrecision { fp32, bf16 };
constexpr std::array<std::string_view, 2> words(ProductPrecision) { return {"fp32", "bf16"}; }

/// The precision of this thread's products, fp32 unless a PrecisionScope says otherwise.
ProductPrecision product_precision();

/// Sets the precision of this thread's products while it lives. A backward pass computes as its
/// forward pass did, on whatever thread.
class PrecisionScope {
 public:
  explicit PrecisionScope(ProductPrecision precision);
  ~PrecisionScope();
  PrecisionScope(const PrecisionScope&) = delete;
  PrecisionScope& operator=(const PrecisionScope&) = delete;

 private:
  ProductPrecision before_;
};

/// Whether this processor multiplies bf16 by itself (AMX, AVX512-BF16).
bool processor_has_bf16();

/// Whether the kernels of the CPU compute bf16 products by f32 instructions, bit for bit as
/// AVX512-BF16 does; several times slower. Off at the start; of the whole process.
void emulate_bf16(bool emulate);

/// x in bf16 where it is f32 and this thread's products are bf16; else x itself.
/// Kernels know by that type which product is asked of them.
at::Tensor product_operand(const at::Tensor& x);

/// x rounded to bf16, still of its own type, where `operand` is bf16; else x itself.  For
/// references.
at::Tensor rounded_like(const at::Tensor& operand, const at::Tensor& x);

}  // namespace penstock::ops
