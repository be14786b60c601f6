#include "penstock/ops/machine/blas.h"

#include <ATen/Version.h>
#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace penstock::ops {
namespace {

/// The file that contains an address, with links resolved; "" if it is unknown.
std::string file_of(const void* address) {
  Dl_info info{};
  if (!address || dladdr(address, &info) == 0 || !info.dli_fname) return "";
  std::error_code ignored;
  const auto resolved = std::filesystem::canonical(info.dli_fname, ignored);
  return ignored ? info.dli_fname : resolved.string();
}

/// The file of the function that libtorch calls by the name `function`.
std::string library_of(const char* function) {
  Dl_info torch{};
  if (dladdr(reinterpret_cast<const void*>(&at::show_config), &torch) == 0) return "";
  void* handle = dlopen(torch.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (!handle) return "";
  const std::string out = file_of(dlsym(handle, function));
  dlclose(handle);
  return out;
}

}  // namespace

std::string blas_name(const std::string& path) {
  std::string lower = path;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const auto& [part, name] : {std::pair("openblas", "OpenBLAS"), std::pair("mkl", "MKL"),
                                   std::pair("blis", "BLIS"), std::pair("atlas", "ATLAS")})
    if (lower.find(part) != std::string::npos) return name;
  const std::string file = std::filesystem::path(lower).filename().string();
  return file.starts_with("libblas.") ? kReferenceBlas : "unknown BLAS";
}

Blas torch_blas() {
  const std::string library = library_of("sgemm_");
  if (!library.empty() && library.find("libtorch") == std::string::npos)
    return {.name = blas_name(library), .library = library};
  // The text contains "BLAS_INFO=mkl" or the like; "open" means OpenBLAS.
  const std::string config = at::show_config(), key = "BLAS_INFO=";
  const auto at = config.find(key);
  if (at == std::string::npos) return {.name = blas_name("")};
  const std::string value = config.substr(at + key.size(), 4);
  return {.name = blas_name(value == "open" ? "openblas" : value)};
}

}  // namespace penstock::ops
