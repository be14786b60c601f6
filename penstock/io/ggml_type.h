// Types of the tensors in GGUF files: their numbers, names and blocks, and dequantisation. The
// folder convert/ decides which of them an export writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace penstock {

/// The types that Penstock reads, numbered as in files.
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

/// The type of that number, or nothing if Penstock does not read it.
std::optional<GgmlType> find_ggml_type(std::uint32_t number);
/// The format's name of a type: "Q8_0".
std::string_view ggml_type_name(GgmlType type);
/// The list of all GgmlType, for errors: "F32, F16, ...".
std::string ggml_types_text();
/// The name of any type, for errors: "IQ4_XS (number 23)", or "number 99" if the format has no such
/// type.
std::string ggml_type_text(std::uint32_t number);

/// How many numbers and bytes a block of the type has: {32, 34} for Q8_0, {1, size} for plain
/// types.
struct GgmlBlock {
  std::uint64_t numbers, bytes;
};
GgmlBlock ggml_block(GgmlType type);

/// Whether the numbers of a block share scales, so that dequantise() is needed to read them.
bool is_quantised(GgmlType type);

/// Computes the blocks' numbers, bit for bit as ggml's reference does. Each is a product of small
/// integers and f16 scales, which is exact in f32. Types with a minimum subtract or add it, with
/// one rounding. REQUIRES: is_quantised(type), and whole blocks for the size of `out` (asserted).
/// Cost: memory traffic and a few operations per number; one thread.
void dequantise(GgmlType type, std::span<const std::byte> blocks, std::span<float> out);

}  // namespace penstock
