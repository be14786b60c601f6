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

/// The type of a source's embeddings, taken as the type of the model; f32 if an export cannot write
/// it.
ExportDtype stored_dtype(const ModelSource& source);

/// Converts a tensor's numbers to a file's type, and tells whether any was rounded.
class ExportedNumbers {
 public:
  /// @param tensor   on the CPU; for a quantised type its rows are whole blocks
  /// @param name     for errors
  /// @param weights  by column, above 0: the weight of errors in the fit of q4_k or q6_k; other
  ///                 types are not fitted. Empty: equal weights
  /// Throws Error if a number is too large for the type.
  ExportedNumbers(const at::Tensor& tensor, ExportDtype dtype, const std::string& name,
                  std::span<const float> weights = {});
  Bytes bytes() const;
  bool rounded() const { return rounded_; }

 private:
  at::Tensor held_;  // the numbers, or the blocks of a quantised type as bytes
  bool rounded_ = false;
};

Dtype safetensors_dtype(ExportDtype dtype);  ///< REQUIRES: not quantised (asserted)
GgmlType ggml_dtype(ExportDtype dtype);
/// Whether the type's scales are fitted, so that errors can be weighted: q6_k and q4_k.
bool is_fitted(ExportDtype dtype);

}  // namespace penstock
