// Writes a model as a GGUF file.
#pragma once

#include <filesystem>

#include "penstock/convert/export/export_hugging_face.h"
#include "penstock/convert/export/export_target.h"
#include "penstock/convert/export/export_tensors.h"
#include "penstock/convert/export/input_squares.h"
#include "penstock/io/gguf.h"

namespace penstock {

/// Writes the file, complete or absent. GgufTypes chooses each tensor's type for `dtype`; a
/// quantised file's notes list the types.
/// @param tokenizer  keys from gguf_tokenizer() or no_gguf_tokenizer()
/// @param weights    by the names of `portable`
/// Memory: one tensor of one expert.
/// Throws Error, which names the tensor, for a tensor that the type cannot store.
Exported export_gguf(FileSystem& fs, const ModelSource& portable, const ExportTarget& target,
                     ExportDtype dtype, const GgufMetadata& tokenizer,
                     const std::filesystem::path& path, const ColumnWeights& weights = {});

}  // namespace penstock
