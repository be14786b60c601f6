// Fuzzes the reading of a llama2.c checkpoint.
#include <cstdint>

#include "penstock/base/error.h"
#include "penstock/models/formats/llama2c_layout.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  std::uint64_t sum = 0;
  try {
    const Llama2cLayout layout = llama2c_layout(std::as_bytes(std::span(data, size)), "fuzz.bin");
    for (const auto& tensor : layout.tensors) {
      std::uint64_t bytes = sizeof(float);
      for (const auto width : tensor.shape) bytes *= static_cast<std::uint64_t>(width);
      if (bytes != tensor.data.size()) __builtin_trap();
      for (const std::byte byte : tensor.data) sum += std::to_integer<unsigned>(byte);
    }
  } catch (const Error&) {
  }
  [[maybe_unused]] const volatile std::uint64_t kept = sum;
  return 0;
}
