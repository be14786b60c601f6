#include "penstock/models/model_source.h"

#include "penstock/models/model_directory.h"
#include "penstock/models/safetensors_source.h"

namespace penstock {

std::unique_ptr<ModelSource> open_model_source(const std::string& path,
                                               const std::string& ignored) {
  return std::make_unique<SafetensorsSource>(read_model_config(path), path, ignored);
}

}  // namespace penstock
