// Converts tensors to the type of a file.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "penstock/base/file_system.h"
#include "penstock/io/gguf.h"
#include "penstock/io/safetensors.h"
#include "penstock/models/model_source.h"

namespace penstock {

enum class ExportDtype { kF32, kF16, kBF16, kQ8_0, kQ6_K, kQ4_K };
constexpr std::array<std::string_view, 6> words(ExportDtype) {
  return {"f32", "f16", "bf16", "q8_0", "q6_k", "q4_k"};
}

/// The type of a source's embeddings, for most of its numbers; f32 if export has no such type.
ExportDtype stored_dtype(const ModelSource& source);

/// A tensor's numbers in a file's type, and whether any was rounded.
class ExportedNumbers {
 public:
  /// @param tensor   CPU, of a quantised type in rows of whole blocks;  @param name  for errors
  /// @param weights  by column, above 0: what errors weigh where q4_k or q6_k is fitted; other
  ///                 types have nothing to fit. Empty: alike
  /// Throws Error if a number is too large for the type.
  ExportedNumbers(const at::Tensor& tensor, ExportDtype dtype, const std::string& name,
                  std::span<const float> weights = {});
  Bytes bytes() const;
  bool rounded() const { return rounded_; }

 private:
  at::Tensor held_;  // the numbers, or of a quantised type the blocks as bytes
  bool rounded_ = false;
};

Dtype safetensors_dtype(ExportDtype dtype);  ///< REQUIRES: not quantised (asserted)
GgmlType ggml_dtype(ExportDtype dtype);
/// Whether the type's scales are fitted, so that errors can be weighted: q6_k and q4_k.
bool is_fitted(ExportDtype dtype);

}  // namespace penstock
