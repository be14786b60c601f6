// The BLAS that libtorch uses for products that an operator leaves to it.
#pragma once

#include <string>

namespace penstock::ops {

/// The name of the reference BLAS: plain loops, many times slower than OpenBLAS.
inline constexpr const char* kReferenceBlas = "reference BLAS";

struct Blas {
  std::string name;     ///< "OpenBLAS", "MKL", "BLIS", "ATLAS", kReferenceBlas or "unknown BLAS"
  std::string library;  ///< path of its file; "" if libtorch contains it
};

/// The BLAS whose sgemm the dynamic linker gave to libtorch. If libtorch contains its BLAS, the
/// name that libtorch says it was built with. On Debian, several packages can provide libblas.so.3.
Blas torch_blas();

/// The name of the BLAS at a library's path, in which links are resolved. The package's folder or
/// file tells the name. A plain libblas is the reference BLAS.
std::string blas_name(const std::string& path);

}  // namespace penstock::ops
