// The two ways in which checkpoints name an optimizer's moments. One process writes m.PARAMETER, by
// the parameters of the model's modules. Several processes, which each write some tensors, write
// m.TENSOR, by the tensors in the model's files. Other tensors keep their names.
#pragma once

#include "penstock/models/formats/torch_safetensors.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// Every moment under its name in files, as a view. Throws Error where a moment has another shape
/// than its parameter. REQUIRES: config is resolved.
TensorMap moments_of_files(const ModelConfig& config, const TensorMap& optimizer);

/// Every moment under its parameter's name. Moments that files have in parts are put together,
/// which takes memory. REQUIRES: config is resolved.
TensorMap moments_of_modules(const ModelConfig& config, const TensorMap& optimizer);

}  // namespace penstock
