// Converts between the two ways in which checkpoints name an optimizer's moments. One process
// writes m.PARAMETER, with the names of the modules' parameters. Several processes, which each
// write some tensors, write m.TENSOR, with the names of tensors in the model's files. Other tensors
// keep their names.
#pragma once

#include "penstock/models/formats/torch_safetensors.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// Every moment under its name in files, as a view. Throws Error if a moment's shape differs from
/// its parameter's. REQUIRES: config is resolved.
TensorMap moments_of_files(const ModelConfig& config, const TensorMap& optimizer);

/// Every moment under its parameter's name. Moments that files hold in parts are joined, which
/// takes memory. REQUIRES: config is resolved.
TensorMap moments_of_modules(const ModelConfig& config, const TensorMap& optimizer);

}  // namespace penstock
