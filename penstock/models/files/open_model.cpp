#include "penstock/models/files/open_model.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "penstock/base/error.h"
#include "penstock/io/config_json.h"
#include "penstock/models/formats/gguf_source.h"
#include "penstock/models/formats/hf_config.h"
#include "penstock/models/formats/llama2c_source.h"
#include "penstock/models/formats/safetensors_source.h"

namespace penstock {

bool is_model_file(const std::string& path) { return path.ends_with(".bin") || is_gguf(path); }

std::unique_ptr<ModelSource> open_model_source(const std::string& path,
                                               const std::string& ignored) {
  if (std::filesystem::is_directory(path))
    return std::make_unique<SafetensorsSource>(read_model_config(path), path, ignored);
  PENSTOCK_CHECK(is_model_file(path), path,
                 ": no model; give a directory with config.json and safetensors files, or ",
                 kModelFiles);
  if (is_gguf(path)) return std::make_unique<GgufSource>(path);
  return std::make_unique<Llama2cSource>(path);
}

ModelConfig read_model_config(const std::string& model) {
  if (is_model_file(model) && !std::filesystem::is_directory(model))
    return open_model_source(model)->config();
  const std::string path = model + "/config.json";
  std::error_code none;
  PENSTOCK_CHECK(std::filesystem::exists(path, none), model,
                 std::filesystem::exists(model, none) ? ": has no config.json" : ": no such folder",
                 "; give a model directory, ", kModelFiles);
  const nlohmann::json config = read_json(path);
  if (!config.is_object() || !config.contains("penstock")) return hf_model_config(config, path);
  PENSTOCK_CHECK(config["penstock"].is_object() && config["penstock"].contains("model"), path,
                 ": its \"penstock\" table has no model");
  return read_config<ModelConfig>(config_from_json(config["penstock"]["model"], path), "model")
      .resolved();
}

}  // namespace penstock
