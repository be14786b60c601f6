#include "penstock/ops/cpu/xsmm/product.h"

#include <libxsmm.h>

#include "penstock/base/error.h"

namespace penstock::ops::xsmm {

bool built() { return true; }

bool supported() {
  static const bool compiles = libxsmm_get_target_archid() >= LIBXSMM_X86_AVX2;
  return compiles;
}

Product compile(const ProductShape& shape) {
  // libxsmm is column-major: its m runs over our columns, its n over our rows.
  const auto a_stride = static_cast<libxsmm_blasint>(shape.a_stride);
  const auto b_stride = static_cast<libxsmm_blasint>(shape.b_stride);
  const auto c_stride = static_cast<libxsmm_blasint>(shape.c_stride);
  const float alpha = 1.0f, beta = shape.accumulate ? 1.0f : 0.0f;
  const int flags = shape.transpose_a ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
  const int prefetch = LIBXSMM_PREFETCH_NONE;
  const libxsmm_smmfunction call = libxsmm_smmdispatch(
      static_cast<libxsmm_blasint>(shape.columns), static_cast<libxsmm_blasint>(shape.rows),
      static_cast<libxsmm_blasint>(shape.depth), &b_stride, &a_stride, &c_stride, &alpha, &beta,
      &flags, &prefetch);
  PENSTOCK_ASSERT(call, "libxsmm has no kernel for ", shape.rows, "x", shape.columns, "x",
                  shape.depth);
  return Product(call);
}

}  // namespace penstock::ops::xsmm
