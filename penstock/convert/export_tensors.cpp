#include "penstock/convert/export_tensors.h"

#include <torch/types.h>

#include <algorithm>
#include <array>

#include "penstock/base/error.h"
#include "penstock/io/q8_0.h"

namespace penstock {
namespace {

struct ExportRow {
  ExportDtype dtype;
  std::string_view name;
  Dtype safetensors;
  GgmlType ggml;
  at::ScalarType type;
};
constexpr std::array<ExportRow, 4> kExportTypes = {
    {{ExportDtype::kF32, "f32", Dtype::kF32, GgmlType::kF32, at::kFloat},
     {ExportDtype::kF16, "f16", Dtype::kF16, GgmlType::kF16, at::kHalf},
     {ExportDtype::kBF16, "bf16", Dtype::kBF16, GgmlType::kBF16, at::kBFloat16},
     {ExportDtype::kQ8_0, "q8_0", Dtype::kU8, GgmlType::kQ8_0, at::kFloat}}};

const ExportRow& export_row(ExportDtype dtype) {
  return *std::ranges::find(kExportTypes, dtype, &ExportRow::dtype);
}

/// The rows' blocks as bytes [.., bytes of a row].
at::Tensor q8_blocks(const at::Tensor& values, const std::string& name) {
  const std::int64_t blocks = values.numel() / static_cast<std::int64_t>(kQ8Block);
  const at::Tensor out = at::empty({blocks * static_cast<std::int64_t>(kQ8BlockBytes)}, at::kByte);
  try {
    quantise_q8_0({values.data_ptr<float>(), static_cast<std::size_t>(values.numel())},
                  {static_cast<std::byte*>(out.data_ptr()), out.nbytes()});
  } catch (const Error& error) {
    fail("tensor '", name, "': ", error.what());
  }
  return out;
}

}  // namespace

std::string_view export_dtype_name(ExportDtype dtype) { return export_row(dtype).name; }

ExportDtype parse_export_dtype(std::string_view word) {
  const auto* const row = std::ranges::find(kExportTypes, word, &ExportRow::name);
  PENSTOCK_CHECK(row != kExportTypes.end(), "unknown type '", word,
                 "'; f32, f16, bf16 and q8_0 are known");
  return row->dtype;
}

ExportDtype stored_dtype(const ModelSource& source) {
  const at::ScalarType type = source.tensor("model.embed_tokens.weight").scalar_type();
  const auto* const row = std::ranges::find(kExportTypes, type, &ExportRow::type);
  return row == kExportTypes.end() ? ExportDtype::kF32 : row->dtype;
}

ExportedNumbers::ExportedNumbers(const at::Tensor& tensor, ExportDtype dtype,
                                 const std::string& name) {
  if (dtype == ExportDtype::kQ8_0) {
    held_ = q8_blocks(tensor.to(at::kFloat).contiguous(), name);
    rounded_ = true;
    return;
  }
  held_ = tensor.to(export_row(dtype).type).contiguous();
  if (held_.scalar_type() == tensor.scalar_type()) return;
  PENSTOCK_CHECK(held_.isfinite().all().item<bool>(), "tensor '", name,
                 "' has numbers that are too large for ", export_row(dtype).name,
                 "; take bf16 or f32");
  rounded_ = !held_.to(at::kDouble).equal(tensor.to(at::kDouble));
}

Bytes ExportedNumbers::bytes() const {
  return {static_cast<const std::byte*>(held_.data_ptr()), held_.nbytes()};
}

Dtype safetensors_dtype(ExportDtype dtype) {
  PENSTOCK_ASSERT(dtype != ExportDtype::kQ8_0, "safetensors has no blocks");
  return export_row(dtype).safetensors;
}

GgmlType ggml_dtype(ExportDtype dtype) { return export_row(dtype).ggml; }

}  // namespace penstock
