#include "penstock/models/model_source.h"

#include <filesystem>

#include "penstock/base/error.h"
#include "penstock/models/gguf_source.h"
#include "penstock/models/llama2c_source.h"
#include "penstock/models/model_directory.h"
#include "penstock/models/safetensors_source.h"

namespace penstock {

bool is_model_file(const std::string& path) { return path.ends_with(".bin") || is_gguf(path); }

std::unique_ptr<ModelSource> open_model_source(const std::string& path,
                                               const std::string& ignored) {
  if (std::filesystem::is_directory(path))
    return std::make_unique<SafetensorsSource>(read_model_config(path), path, ignored);
  PENSTOCK_CHECK(is_model_file(path), path,
                 ": no model; give a directory with config.json and safetensors files, or a "
                 "llama2.c checkpoint (.bin) or a GGUF file (.gguf)");
  if (is_gguf(path)) return std::make_unique<GgufSource>(path);
  return std::make_unique<Llama2cSource>(path);
}

}  // namespace penstock
