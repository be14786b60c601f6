// The two ways in which checkpoints name an optimizer's moments: m.PARAMETER of the model as
// modules, where one process wrote them, and m.TENSOR of the model's files, where several did, each
// some tensors. What is no moment keeps its name.
#pragma once

#include "penstock/models/formats/torch_safetensors.h"
#include "penstock/models/model_config.h"

namespace penstock {

/// Every moment under the names of files; views. Throws Error where one has another shape than its
/// parameter. REQUIRES: config is resolved.
TensorMap moments_of_files(const ModelConfig& config, const TensorMap& optimizer);

/// Every moment under the names of parameters; those that files have in parts are put together,
/// which takes memory. REQUIRES: config is resolved.
TensorMap moments_of_modules(const ModelConfig& config, const TensorMap& optimizer);

}  // namespace penstock
