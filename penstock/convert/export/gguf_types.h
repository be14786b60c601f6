// Chooses the type of each tensor of an exported GGUF file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/convert/export/export_tensors.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// The type of each tensor of a file:
///   vectors and routers are F32, as llama.cpp requires;
///   with q4_k, the head (or the embeddings that are tied to it) is q6_k, and so are the value and
///   down projections of the first and last eighth of the layers and of every third layer between,
///   as in llama.cpp's Q4_K_M; with q4_k and q6_k, rows that are not a multiple of 256 numbers are
///   q8_0 or, if they are not whole blocks of that, f16.
class GgufTypes {
 public:
  GgufTypes(ExportDtype asked, const ModelConfig& config)
      : asked_(asked), layers_(config.layers), tied_(config.tie_embeddings) {}
  /// @param name  the tensor's name in the file: "blk.3.ffn_down_exps.weight"
  /// @param shape  its last entry is the length of a row
  /// Throws Error, naming the tensor, if q8_0 was requested and a row is not whole blocks of it.
  ExportDtype of(std::string_view name, const std::vector<std::int64_t>& shape) const;

 private:
  bool is_finer(std::string_view name) const;

  ExportDtype asked_;
  std::int64_t layers_;
  bool tied_;
};

/// The type that describes a file with these tensors: `asked` if any tensor has it. If none has,
/// because no row fills whole blocks of q4_k or q6_k, the type of most tensors that are neither
/// vectors nor routers.
ExportDtype gguf_file_dtype(ExportDtype asked, const std::vector<ExportDtype>& types);

/// `general.file_type`: llama.cpp's number of that type.
std::uint32_t gguf_file_type(ExportDtype dtype);

/// The number of tensors by type: "13 tensors are q4_k, 3 q6_k, 2 q8_0 (rows that are no
/// multiple of 256), 9 f32".
std::string types_note(ExportDtype asked, const std::vector<ExportDtype>& types);

}  // namespace penstock
