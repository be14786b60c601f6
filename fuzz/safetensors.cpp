// Fuzzes the reading of a safetensors file.
#include "penstock/io/safetensors.h"

#include <cstdint>

#include "penstock/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  std::uint64_t sum = 0;
  try {
    const auto header = parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz.safetensors");
    for (const TensorView& tensor : header.tensors) {
      std::uint64_t bytes = dtype_bytes(tensor.dtype);
      for (const auto width : tensor.shape) bytes *= static_cast<std::uint64_t>(width);
      if (bytes != tensor.data.size()) __builtin_trap();
      for (const std::byte byte : tensor.data) sum += std::to_integer<unsigned>(byte);
    }
  } catch (const Error&) {
  }
  [[maybe_unused]] const volatile std::uint64_t kept = sum;
  return 0;
}
