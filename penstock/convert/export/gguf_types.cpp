#include "penstock/convert/export/gguf_types.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "penstock/base/error.h"

namespace penstock {
namespace {

/// The layer of "blk.12.attn_v.weight"; -1 for a tensor outside the layers.
std::int64_t layer_of(std::string_view name) {
  constexpr std::string_view kStem = "blk.";
  std::int64_t layer = -1;
  if (name.starts_with(kStem))
    std::from_chars(name.data() + kStem.size(), name.data() + name.size(), layer);
  return layer;
}

bool fills_blocks(std::int64_t row, ExportDtype dtype) {
  return static_cast<std::uint64_t>(row) % ggml_block(ggml_dtype(dtype)).numbers == 0;
}

}  // namespace

bool GgufTypes::is_finer(std::string_view name) const {
  if (name == "output.weight") return true;
  if (name == "token_embd.weight") return tied_;
  if (name.find(".attn_v.") == std::string_view::npos &&
      name.find(".ffn_down") == std::string_view::npos)
    return false;
  const std::int64_t layer = layer_of(name), eighth = layers_ / 8;
  return layer < eighth || layer >= 7 * layers_ / 8 || (layer - eighth) % 3 == 2;
}

ExportDtype GgufTypes::of(std::string_view name, const std::vector<std::int64_t>& shape) const {
  const bool vector = shape.size() < 2 || shape[0] == 1;
  if (vector || name.ends_with(".ffn_gate_inp.weight")) return ExportDtype::kF32;
  const std::int64_t row = shape.back();
  if (is_fitted(asked_)) {
    if (fills_blocks(row, asked_)) return is_finer(name) ? ExportDtype::kQ6_K : asked_;
    return fills_blocks(row, ExportDtype::kQ8_0) ? ExportDtype::kQ8_0 : ExportDtype::kF16;
  }
  PENSTOCK_CHECK(fills_blocks(row, asked_), "tensor '", name, "' has rows of ", row,
                 " numbers, and ", word(asked_), " wants whole blocks of ",
                 ggml_block(ggml_dtype(asked_)).numbers, "; take f32, f16 or bf16");
  return asked_;
}

ExportDtype gguf_file_dtype(ExportDtype asked, const std::vector<ExportDtype>& types) {
  if (std::ranges::find(types, asked) != types.end()) return asked;
  const auto count = [&](ExportDtype type) {
    return type == ExportDtype::kF32 ? 0 : std::ranges::count(types, type);
  };
  return types.empty() ? asked : std::ranges::max(types, {}, count);
}

std::uint32_t gguf_file_type(ExportDtype dtype) {
  constexpr std::array<std::pair<ExportDtype, std::uint32_t>, 6> kNumbers = {
      {{ExportDtype::kF32, 0},
       {ExportDtype::kF16, 1},
       {ExportDtype::kQ8_0, 7},
       {ExportDtype::kQ4_K, 15},
       {ExportDtype::kQ6_K, 18},
       {ExportDtype::kBF16, 32}}};
  return std::ranges::find(kNumbers, dtype, &std::pair<ExportDtype, std::uint32_t>::first)->second;
}

std::string types_note(ExportDtype asked, const std::vector<ExportDtype>& types) {
  std::string out;
  for (const ExportDtype type : {ExportDtype::kQ4_K, ExportDtype::kQ6_K, ExportDtype::kQ8_0,
                                 ExportDtype::kBF16, ExportDtype::kF16, ExportDtype::kF32}) {
    const auto count = std::ranges::count(types, type);
    if (count == 0) continue;
    out += concat(out.empty() ? "" : ", ", count, out.empty() ? " tensors are " : " ", word(type));
    if (type == asked || (type != ExportDtype::kQ8_0 && type != ExportDtype::kF16)) continue;
    // The type whose blocks these rows do not fill. Halves stand where Q8_0 does not fit either.
    const ExportDtype unfilled = type == ExportDtype::kQ8_0 ? asked : ExportDtype::kQ8_0;
    out += concat(" (rows that are no multiple of ", ggml_block(ggml_dtype(unfilled)).numbers, ")");
  }
  return out;
}

}  // namespace penstock
