// Fuzzes the reading of a GGUF file.
#include "penstock/io/gguf.h"

#include <bit>
#include <cstdint>
#include <vector>

#include "penstock/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  const auto bytes = std::as_bytes(std::span(data, size));
  std::uint64_t sum = 0;
  try {
    const GgufContent content = parse_gguf(bytes, "fuzz.gguf");
    for (const auto& [key, value] : content.metadata) {
      sum += key.size() + value.as_integer().value_or(0) + value.as_bool().value_or(false);
      if (const auto values = value.as_integers()) sum += values->size();
      if (const auto values = value.as_numbers()) sum += values->size();
      if (const auto* values = value.as_strings())
        for (const auto& text : *values) sum += text.size();
    }
    for (const GgufTensor& tensor : content.tensors) {
      std::uint64_t numbers = 1;
      for (const auto width : tensor.shape) numbers *= static_cast<std::uint64_t>(width);
      const GgmlBlock block = ggml_block(tensor.type);
      if (numbers / block.numbers * block.bytes != tensor.data.size()) __builtin_trap();
      for (const std::byte byte : tensor.data) sum += std::to_integer<unsigned>(byte);
      if (!is_quantised(tensor.type)) continue;
      std::vector<float> values(numbers);
      dequantise(tensor.type, tensor.data, values);
      sum += std::bit_cast<std::uint32_t>(values.back());
    }
  } catch (const Error&) {
  }
  [[maybe_unused]] const volatile std::uint64_t kept = sum;
  return 0;
}
