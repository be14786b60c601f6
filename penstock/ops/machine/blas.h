// The BLAS that libtorch uses for products that an operator leaves to it.
#pragma once

#include <string>

namespace penstock::ops {

/// The name of the reference BLAS: plain loops, many times slower than OpenBLAS.
inline constexpr const char* kReferenceBlas = "reference BLAS";

struct Blas {
  std::string name;     ///< "OpenBLAS", "MKL", "BLIS", "ATLAS", kReferenceBlas or "unknown BLAS"
  std::string library;  ///< its file; "" if libtorch contains it
};

/// What the dynamic linker gave libtorch for sgemm; where libtorch has it within, what libtorch
/// says that it was built with. On Debian libblas.so.3 may be any of several packages'.
Blas torch_blas();

/// The name for a library's path, links resolved: the package's folder or file says it, and a plain
/// libblas is the reference.
std::string blas_name(const std::string& path);

}  // namespace penstock::ops
