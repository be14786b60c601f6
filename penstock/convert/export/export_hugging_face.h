// Writes a model as a directory that Hugging Face's transformers opens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "penstock/base/file_system.h"
#include "penstock/convert/export/export_target.h"
#include "penstock/convert/export/export_tensors.h"

namespace penstock {

/// The result of writing a file.
struct Exported {
  ExportDtype dtype = ExportDtype::kF32;  ///< the type that describes the whole file
  bool rounded = false;                   ///< whether some number was rounded
  std::vector<std::string> notes;         ///< notes for the certificate
};

/// Writes config.json (with the key names of transformers 4 and 5), and the weights, one tensor per
/// expert, in shards of at most `shard_bytes` each (a single tensor may exceed it). Also writes the
/// tokenizer's files and the chat template if there is a tokenizer, the source folder's
/// generation_config.json (generation_files.h) if there is one, and for Penstock's own class
/// (convert/export/own_class.h) its Python files. The directory is complete or absent. Memory: one
/// tensor. Throws Error for a type that safetensors lacks.
Exported export_hugging_face(FileSystem& fs, const ModelSource& portable,
                             const ExportTarget& target, ExportDtype dtype,
                             std::uint64_t shard_bytes, const Tokenizer* tokenizer,
                             const std::filesystem::path& path);

}  // namespace penstock
