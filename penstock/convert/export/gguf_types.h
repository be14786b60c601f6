// Which type each tensor of an exported GGUF file has.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/convert/export/export_tensors.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// The type of each tensor of a file:
///   vectors and routers are F32, as llama.cpp wants them;
///   of q4_k the head (or the embeddings that are tied to it), and the values and down projections
///   of the first and last eighth of the layers and of every third between, are q6_k, as in
///   llama.cpp's Q4_K_M; of q4_k and q6_k, rows that are no multiple of 256 numbers are q8_0, or
///   else f16.
class GgufTypes {
 public:
  GgufTypes(ExportDtype asked, const ModelConfig& config)
      : asked_(asked), layers_(config.layers), tied_(config.tie_embeddings) {}
  /// @param name   the file's: "blk.3.ffn_down_exps.weight"
  /// @param shape  its last is the numbers of a row
  /// Throws Error, naming it, for a row that is not whole blocks of q8_0 where that was asked for.
  ExportDtype of(std::string_view name, const std::vector<std::int64_t>& shape) const;

 private:
  bool is_finer(std::string_view name) const;

  ExportDtype asked_;
  std::int64_t layers_;
  bool tied_;
};

/// What a file is called that was asked for as `asked` and has tensors of these types: that, where
/// any tensor is of it; else, as no row of q4_k or q6_k may have been whole blocks, the type of
/// most tensors that are neither vectors nor routers.
ExportDtype gguf_file_dtype(ExportDtype asked, const std::vector<ExportDtype>& types);

/// `general.file_type`: that type, as llama.cpp numbers it.
std::uint32_t gguf_file_type(ExportDtype dtype);

/// How many tensors have which type: "13 tensors are q4_k, 3 q6_k, 2 q8_0 (rows that are no
/// multiple of 256), 9 f32".
std::string types_note(ExportDtype asked, const std::vector<ExportDtype>& types);

}  // namespace penstock
