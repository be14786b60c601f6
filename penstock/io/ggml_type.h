// Types of the tensors in GGUF files: their numbers and names, their blocks, and their values.
// Which of them an export writes is in convert.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace penstock {

/// Types that are read, numbered as in files.
enum class GgmlType : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30
};

/// The type of that number, where it is one that is read.
std::optional<GgmlType> find_ggml_type(std::uint32_t number);
/// The format's word for a type: "Q8_0".
std::string_view ggml_type_name(GgmlType type);
/// All that are read, for an error: "F32, F16, ...".
std::string ggml_types_text();
/// Any type, for an error: "IQ4_XS (number 23)" where the format has such a type, else "number 99".
std::string ggml_type_text(std::uint32_t number);

/// Numbers and bytes of a block of the type: {32, 34} for Q8_0, {1, size} for plain numbers.
struct GgmlBlock {
  std::uint64_t numbers, bytes;
};
GgmlBlock ggml_block(GgmlType type);

/// Whether numbers share scales in blocks, so that dequantise() gives them.
bool is_quantised(GgmlType type);

/// The blocks' numbers, bit for bit as ggml's reference has them: each is one product of small
/// integers and f16 scales, exact in f32, and of the types with a minimum one difference, rounded
/// once.
/// REQUIRES: is_quantised(type), and whole blocks for as many numbers (asserted).
/// Cost: memory traffic and a few operations a number; one thread.
void dequantise(GgmlType type, std::span<const std::byte> blocks, std::span<float> out);

}  // namespace penstock
