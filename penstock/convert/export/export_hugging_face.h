// A model as a directory that Hugging Face's transformers opens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "penstock/base/file_system.h"
#include "penstock/convert/export/export_target.h"
#include "penstock/convert/export/export_tensors.h"

namespace penstock {

/// How a file came out.
struct Exported {
  bool rounded = false;            ///< some number is not stored as it was
  std::vector<std::string> notes;  ///< of the certificate
};

/// Writes config.json (with the spellings of transformers 4 and 5), the weights, one tensor per
/// expert, in shards of at most `shard_bytes` each (one tensor may exceed it), and the tokenizer's
/// files where there is one; for Penstock's own class (convert/export/own_class.h) its Python files
/// too. The directory is complete or absent. Memory: one tensor. Throws Error for a type that
/// safetensors lacks.
Exported export_hugging_face(FileSystem& fs, const ModelSource& portable,
                             const ExportTarget& target, ExportDtype dtype,
                             std::uint64_t shard_bytes, const Tokenizer* tokenizer,
                             const std::filesystem::path& path);

/// The text of config.json, of a class of transformers.
std::string hugging_face_config_text(const ExportTarget& target, ExportDtype dtype,
                                     const Tokenizer* tokenizer);
/// Keys of any config.json: ids of special tokens, null where there is none.
void add_token_ids(const Tokenizer* tokenizer, nlohmann::ordered_json& out);
const char* torch_dtype_name(ExportDtype dtype);

}  // namespace penstock
