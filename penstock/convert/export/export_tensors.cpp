#include "penstock/convert/export/export_tensors.h"

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <array>

#include "penstock/base/error.h"
#include "penstock/io/q8_0.h"
#include "penstock/io/quantise_k.h"
#include "penstock/models/embedding_and_head_names.h"

namespace penstock {
namespace {

using Quantise = void (*)(std::span<const float>, std::span<std::byte>);
using QuantiseWeighted = void (*)(std::span<const float>, std::span<const float>,
                                  std::span<std::byte>);

struct ExportRow {
  ExportDtype dtype;
  Dtype safetensors;  // for plain numbers
  GgmlType ggml;
  at::ScalarType type;
  Quantise blocks;            // null for plain numbers
  QuantiseWeighted weighted;  // null if nothing is fitted
};
constexpr std::array<ExportRow, 6> kExportTypes = {
    {{ExportDtype::kF32, Dtype::kF32, GgmlType::kF32, at::kFloat, nullptr, nullptr},
     {ExportDtype::kF16, Dtype::kF16, GgmlType::kF16, at::kHalf, nullptr, nullptr},
     {ExportDtype::kBF16, Dtype::kBF16, GgmlType::kBF16, at::kBFloat16, nullptr, nullptr},
     {ExportDtype::kQ8_0, {}, GgmlType::kQ8_0, at::kFloat, quantise_q8_0, nullptr},
     {ExportDtype::kQ6_K, {}, GgmlType::kQ6_K, at::kFloat, quantise_q6_k, quantise_q6_k},
     {ExportDtype::kQ4_K, {}, GgmlType::kQ4_K, at::kFloat, quantise_q4_k, quantise_q4_k}}};

const ExportRow& export_row(ExportDtype dtype) {
  return *std::ranges::find(kExportTypes, dtype, &ExportRow::dtype);
}

bool all_finite(const at::Tensor& numbers) { return numbers.isfinite().all().item<bool>(); }

/// Quantises values that begin at number `begin` of a matrix. `weights` are those of the matrix's
/// columns.
void weighted_blocks(const ExportRow& row, std::span<const float> values,
                     std::span<const float> weights, std::size_t begin, std::span<std::byte> out) {
  const auto [numbers, bytes] = ggml_block(row.ggml);
  for (std::size_t i = 0; i * numbers < values.size(); ++i)
    row.weighted(values.subspan(i * numbers, numbers),
                 weights.subspan((begin + i * numbers) % weights.size(), numbers),
                 out.subspan(i * bytes, bytes));
}

/// The blocks of the rows as bytes, in order. Blocks are independent, so the bytes do not depend on
/// the number of threads.
at::Tensor blocks_of(const at::Tensor& values, const ExportRow& row, const std::string& name,
                     std::span<const float> weights) {
  PENSTOCK_ASSERT(weights.empty() || std::ssize(weights) == values.size(-1));
  const auto [numbers, bytes] = ggml_block(row.ggml);
  const std::int64_t blocks = values.numel() / static_cast<std::int64_t>(numbers);
  at::Tensor out = at::empty({blocks * static_cast<std::int64_t>(bytes)}, at::kByte);
  const std::span<const float> from(values.data_ptr<float>(), blocks * numbers);
  const std::span<std::byte> to(static_cast<std::byte*>(out.data_ptr()), out.nbytes());
  try {
    at::parallel_for(0, blocks, 64,
                     [&, n = numbers, b = bytes](std::int64_t begin, std::int64_t end) {
                       const auto first = static_cast<std::size_t>(begin),
                                  count = static_cast<std::size_t>(end - begin);
                       const auto some = from.subspan(first * n, count * n);
                       const auto into = to.subspan(first * b, count * b);
                       if (row.weighted && !weights.empty())
                         weighted_blocks(row, some, weights, first * n, into);
                       else
                         row.blocks(some, into);
                     });
  } catch (const Error& error) {
    fail("tensor '", name, "': ", error.what());
  }
  return out;
}

}  // namespace

ExportDtype stored_dtype(const ModelSource& source) {
  const at::ScalarType type = source.tensor(kEmbeddingsTensor).scalar_type();
  const auto* const row = std::ranges::find(kExportTypes, type, &ExportRow::type);
  return row == kExportTypes.end() ? ExportDtype::kF32 : row->dtype;
}

ExportedNumbers::ExportedNumbers(const at::Tensor& tensor, ExportDtype dtype,
                                 const std::string& name, std::span<const float> weights) {
  if (export_row(dtype).blocks) {
    held_ = blocks_of(tensor.to(at::kFloat).contiguous(), export_row(dtype), name, weights);
    rounded_ = true;
    return;
  }
  held_ = tensor.to(export_row(dtype).type).contiguous();
  if (held_.scalar_type() == tensor.scalar_type()) return;
  PENSTOCK_CHECK(all_finite(held_), "tensor '", name, "' has numbers that are too large for ",
                 word(dtype), "; take ",
                 all_finite(tensor.to(at::kBFloat16)) ? "bf16 or f32" : "f32");
  rounded_ = !held_.to(at::kDouble).equal(tensor.to(at::kDouble));
}

Bytes ExportedNumbers::bytes() const {
  return {static_cast<const std::byte*>(held_.data_ptr()), held_.nbytes()};
}

Dtype safetensors_dtype(ExportDtype dtype) {
  PENSTOCK_ASSERT(!export_row(dtype).blocks, "safetensors has no blocks");
  return export_row(dtype).safetensors;
}

bool is_fitted(ExportDtype dtype) { return export_row(dtype).weighted != nullptr; }

GgmlType ggml_dtype(ExportDtype dtype) { return export_row(dtype).ggml; }

}  // namespace penstock
