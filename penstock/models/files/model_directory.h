// A model directory: config.json, model.safetensors, tokenizer files. What training leaves behind
// and every other subcommand opens.
#pragma once

#include <memory>
#include <string>

#include "penstock/models/files/open_model.h"
#include "penstock/models/language_model.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// The text of config.json: Hugging Face's keys, and Penstock's own [model] table under "penstock".
/// Nothing is left to a default, the options of the router's parts included. model_type is "llama"
/// or "qwen2" for a dense decoder that those classes compute alike, and "penstock" for any other
/// model. REQUIRES: config is resolved.
std::string config_json_text(const ModelConfig& config);

/// Builds the model that a source (see open_model_source) describes and reads its weights, in
/// evaluation mode. Throws Error naming the file, and the tensor, that is wrong or not finite.
/// Memory: the model and one tensor.
std::shared_ptr<LanguageModel> load_model(const std::string& model);
/// The same of a source that is open.
std::shared_ptr<LanguageModel> load_model(const ModelSource& source);
/// The same as a model of another config, whose tensors have the same names and shapes.
std::shared_ptr<LanguageModel> load_model(const ModelSource& source, const ModelConfig& config);

/// A source's tensor; throws Error naming it where it holds NaN or infinity.
at::Tensor finite_tensor(const ModelSource& source, const std::string& name);

}  // namespace penstock
