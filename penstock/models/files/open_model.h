// Opens checkpoints of any format lazily: it reads the config and locates the tensors.
#pragma once

#include <memory>
#include <string>

#include "penstock/models/model_config.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// The forms of a model, for help texts, and the forms of a model in one file, for messages.
inline constexpr const char* kModelForms = "directory, llama2.c .bin or .gguf";
inline constexpr const char* kModelFiles = "a llama2.c checkpoint (.bin) or a GGUF file (.gguf)";

/// Opens a checkpoint. It is a directory with config.json and safetensors files, a llama2.c `.bin`
/// file or a GGUF file. The directory's files are Penstock's own or Hugging Face's
/// (models/formats/hf_config.h lists the supported ones).
/// @param ignored  a prefix of names. Tensors with such names are allowed and do
///                 not belong to the model. If the prefix is empty, every tensor
///                 must belong to the model.
/// Throws Error that names the file, and the key or tensor, that is missing, unknown or wrong.
std::unique_ptr<ModelSource> open_model_source(const std::string& path,
                                               const std::string& ignored = {});

/// Whether this name is that of a checkpoint in one file. The file need not exist.
bool is_model_file(const std::string& path);

/// The config of a model. For a directory it comes from config.json, where Penstock's own table has
/// precedence over Hugging Face's keys; no tensors are read. For a file it comes from the file's
/// header (see open_model_source).
ModelConfig read_model_config(const std::string& model);

}  // namespace penstock
