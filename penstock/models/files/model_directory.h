// A model directory: config.json, model.safetensors and tokenizer files. Training writes it and
// every other subcommand opens it.
#pragma once

#include <memory>
#include <string>

#include "penstock/models/files/open_model.h"
#include "penstock/models/language_model.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// The text of config.json: Hugging Face's keys, and Penstock's own [model] table under "penstock".
/// The table writes out every value, including the options of the router's parts, so nothing
/// depends on defaults. model_type is "llama" or "qwen2" for a dense decoder that computes the same
/// as these classes, and "penstock" for any other model.
/// REQUIRES: config is resolved.
std::string config_json_text(const ModelConfig& config);

/// Opens a source (see open_model_source), builds its model in evaluation mode and reads the
/// weights. Memory: the model and one tensor.
/// Throws Error that names the file, and the tensor, that is wrong or not finite.
std::shared_ptr<LanguageModel> load_model(const std::string& model);
/// The same for an open source.
std::shared_ptr<LanguageModel> load_model(const ModelSource& source);
/// The same with another config whose tensors have the same names and shapes. Only the place's part
/// of each tensor is read and checked. Memory: the place's part of the model and one tensor.
std::shared_ptr<LanguageModel> load_model(const ModelSource& source, const ModelConfig& config,
                                          const ModelPlace& place = {});

/// A source's tensor. Throws Error that names the tensor if it holds NaN or infinity.
at::Tensor finite_tensor(const ModelSource& source, const std::string& name);

}  // namespace penstock
