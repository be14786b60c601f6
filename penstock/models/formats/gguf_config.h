// Reads the config of a model in a GGUF file.
#pragma once

#include "penstock/io/gguf.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// The config of a file's model, from its keys and shapes. Throws Error naming the file, and the
/// key or tensor, that is missing, unknown or wrong.
ModelConfig read_gguf_config(const GgufFile& file);

}  // namespace penstock
