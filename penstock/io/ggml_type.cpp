#include "penstock/io/ggml_type.h"

#include <algorithm>
#include <array>

#include "penstock/base/error.h"
#include "penstock/io/k_blocks.h"
#include "penstock/io/q8_0.h"
#include "penstock/io/small_blocks.h"

namespace penstock {
namespace {

using Dequantise = void (*)(std::span<const std::byte>, std::span<float>);

struct GgmlRow {
  GgmlType type;
  std::string_view name;
  GgmlBlock block;
  Dequantise values;  // null for plain numbers
};
constexpr std::array<GgmlRow, 11> kGgmlTypes = {
    {{GgmlType::kF32, "F32", {1, 4}, nullptr},
     {GgmlType::kF16, "F16", {1, 2}, nullptr},
     {GgmlType::kBF16, "BF16", {1, 2}, nullptr},
     {GgmlType::kQ8_0, "Q8_0", {kQ8Block, kQ8BlockBytes}, dequantise_q8_0},
     {GgmlType::kQ4_0, "Q4_0", {kSmallBlock, sizeof(Q40Block)}, dequantise_q4_0},
     {GgmlType::kQ4_1, "Q4_1", {kSmallBlock, sizeof(Q41Block)}, dequantise_q4_1},
     {GgmlType::kQ5_0, "Q5_0", {kSmallBlock, sizeof(Q50Block)}, dequantise_q5_0},
     {GgmlType::kQ5_1, "Q5_1", {kSmallBlock, sizeof(Q51Block)}, dequantise_q5_1},
     {GgmlType::kQ4_K, "Q4_K", {kKBlock, sizeof(Q4KBlock)}, dequantise_q4_k},
     {GgmlType::kQ5_K, "Q5_K", {kKBlock, sizeof(Q5KBlock)}, dequantise_q5_k},
     {GgmlType::kQ6_K, "Q6_K", {kKBlock, sizeof(Q6KBlock)}, dequantise_q6_k}}};

struct OtherType {
  std::uint32_t number;
  std::string_view name;
};
/// Types of weights in other programs' files that Penstock does not read.
constexpr std::array<OtherType, 14> kOtherTypes = {{{10, "Q2_K"},
                                                    {11, "Q3_K"},
                                                    {16, "IQ2_XXS"},
                                                    {17, "IQ2_XS"},
                                                    {18, "IQ3_XXS"},
                                                    {19, "IQ1_S"},
                                                    {20, "IQ4_NL"},
                                                    {21, "IQ3_S"},
                                                    {22, "IQ2_S"},
                                                    {23, "IQ4_XS"},
                                                    {29, "IQ1_M"},
                                                    {34, "TQ1_0"},
                                                    {35, "TQ2_0"},
                                                    {39, "MXFP4"}}};

const GgmlRow& ggml_row(GgmlType type) {
  return *std::ranges::find(kGgmlTypes, type, &GgmlRow::type);
}

}  // namespace

std::optional<GgmlType> find_ggml_type(std::uint32_t number) {
  const auto* const found = std::ranges::find(kGgmlTypes, GgmlType{number}, &GgmlRow::type);
  return found == kGgmlTypes.end() ? std::nullopt : std::optional(found->type);
}

std::string_view ggml_type_name(GgmlType type) { return ggml_row(type).name; }

std::string ggml_types_text() {
  std::string out;
  for (const GgmlRow& row : kGgmlTypes)
    out += (out.empty() ? "" : &row == &kGgmlTypes.back() ? " and " : ", ") + std::string(row.name);
  return out;
}

std::string ggml_type_text(std::uint32_t number) {
  const std::string text = "number " + std::to_string(number);
  if (const auto known = find_ggml_type(number)) return std::string(ggml_type_name(*known));
  const auto* const other = std::ranges::find(kOtherTypes, number, &OtherType::number);
  return other == kOtherTypes.end() ? text : std::string(other->name) + " (" + text + ")";
}

GgmlBlock ggml_block(GgmlType type) { return ggml_row(type).block; }
bool is_quantised(GgmlType type) { return ggml_row(type).values != nullptr; }

void dequantise(GgmlType type, std::span<const std::byte> blocks, std::span<float> out) {
  const GgmlRow& row = ggml_row(type);
  PENSTOCK_ASSERT(row.values, row.name, " has no blocks");
  row.values(blocks, out);
}

}  // namespace penstock
