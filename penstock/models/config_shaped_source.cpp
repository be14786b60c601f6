#include "penstock/models/config_shaped_source.h"

#include <utility>

#include "penstock/base/error.h"
#include "penstock/models/counts/model_tensors.h"

namespace penstock {

ConfigShapedSource::ConfigShapedSource(ModelConfig config, std::string origin)
    : ModelSource(std::move(config), std::move(origin)),
      shapes_(tensor_shapes(ModelSource::config())) {}

std::vector<std::string> ConfigShapedSource::names() const {
  std::vector<std::string> out;
  out.reserve(shapes_.size());
  for (const auto& [name, shape] : shapes_) out.push_back(name);
  return out;
}

std::vector<std::int64_t> ConfigShapedSource::shape(const std::string& name) const {
  const auto found = shapes_.find(name);
  PENSTOCK_CHECK(found != shapes_.end(), origin(), ": the model has no tensor '", name, "'");
  return found->second;
}

}  // namespace penstock
