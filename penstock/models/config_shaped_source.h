// A ModelSource that takes the names and shapes of its tensors from the config.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "penstock/models/model_source.h"

namespace penstock {

/// The base of sources that make their tensors, or find them by their names.
class ConfigShapedSource : public ModelSource {
 public:
  std::vector<std::string> names() const override;
  std::vector<std::int64_t> shape(const std::string& name) const override;

 protected:
  /// REQUIRES: config is resolved.
  ConfigShapedSource(ModelConfig config, std::string origin);
  /// The shapes of all tensors by name.
  const std::map<std::string, std::vector<std::int64_t>>& shapes() const { return shapes_; }

 private:
  std::map<std::string, std::vector<std::int64_t>> shapes_;
};

}  // namespace penstock
