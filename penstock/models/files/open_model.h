// Opens checkpoints of any format lazily: what a model is by its config, and where its tensors lie.
#pragma once

#include <memory>
#include <string>

#include "penstock/models/model_config.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// Opens a checkpoint: a directory with config.json and safetensors files, Penstock's own or
/// Hugging Face's (models/formats/hf_config.h says which), a llama2.c `.bin` file or a GGUF file.
/// @param ignored  where not empty, tensors whose names begin so are no part of the model, and may
///                 be there
/// Throws Error naming the file, and the key or tensor, that is missing, unknown or wrong.
std::unique_ptr<ModelSource> open_model_source(const std::string& path,
                                               const std::string& ignored = {});

/// Whether a file of that name, which need not exist, is taken for a checkpoint in one file.
bool is_model_file(const std::string& path);

/// What a model is, by its directory's config.json, where Penstock's own table counts before
/// Hugging Face's keys, or by its file's header (see open_model_source). Of a directory, reads no
/// tensors.
ModelConfig read_model_config(const std::string& model);

}  // namespace penstock
