// The methods: named combinations of parts.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "penstock/base/config_node.h"
#include "penstock/base/registry.h"

namespace penstock {

/// A named combination of parts, with the options that the method fixes.
struct Method {
  std::string summary, source;
  std::string scorer, selector;
  std::vector<std::string> balancers;
  std::map<std::string, ConfigNode> options;  ///< by part: {"topk": {...}, "load-balance": {...}}
  double k = 0;  ///< active experts in its source; 0: the source has several values
};
/// All methods. `dense` has no parts: the model then builds no MoE layers.
const Registry<Method>& method_registry();

}  // namespace penstock
