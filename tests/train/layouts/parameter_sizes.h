// The sizes of a model's parameters, which tests compare estimates with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "penstock/models/counts/model_tensors.h"
#include "penstock/train/ranks/parameter_units.h"

namespace penstock::testing {

/// The trained parameters of a whole model. REQUIRES: config is resolved.
inline std::vector<ParameterSize> parameter_sizes(const ModelConfig& config) {
  std::vector<ParameterSize> out;
  std::map<std::string, std::size_t> places;
  for (const ModelTensor& tensor : model_tensors(config)) {
    if (!tensor.trained) continue;
    const auto [place, fresh] = places.try_emplace(tensor.module, out.size());
    if (fresh) out.push_back({.name = tensor.module});
    out[place->second].elements += tensor.size() * std::max<std::int64_t>(1, tensor.experts);
  }
  return out;
}

}  // namespace penstock::testing
