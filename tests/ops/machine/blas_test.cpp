// The name of the BLAS that libtorch uses, found by the paths of Debian's packages.
#include "penstock/ops/machine/blas.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace penstock::ops::blas_test {
namespace {

TEST(Blas, NamesFollowFromThePackagesPlace) {
  const std::string lib = "/usr/lib/x86_64-linux-gnu/";
  EXPECT_EQ(blas_name(lib + "blas/libblas.so.3.11.0"), kReferenceBlas);
  EXPECT_EQ(blas_name(lib + "openblas-pthread/libblas.so.3"), "OpenBLAS");
  EXPECT_EQ(blas_name(lib + "openblas-openmp/libopenblas-r0.3.21.so"), "OpenBLAS");
  EXPECT_EQ(blas_name(lib + "blis-openmp/libblas.so.3"), "BLIS");
  EXPECT_EQ(blas_name(lib + "atlas/libblas.so.3.10.3"), "ATLAS");
  EXPECT_EQ(blas_name("/opt/intel/libmkl_rt.so.2"), "MKL");
  EXPECT_EQ(blas_name("/opt/lib/libfast.so"), "unknown BLAS");
}

TEST(Blas, OfThisLibtorchIsAFileThatIsLoadedOrNamed) {
  const Blas blas = torch_blas();
  EXPECT_NE(blas.name, "unknown BLAS") << blas.library;
  if (!blas.library.empty()) {
    EXPECT_TRUE(std::filesystem::exists(blas.library)) << blas.library;
    EXPECT_EQ(blas_name(blas.library), blas.name);
  }
}

}  // namespace
}  // namespace penstock::ops::blas_test
