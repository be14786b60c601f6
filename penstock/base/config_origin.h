// Where the keys that an error names were set: file and line for checks that compare several values
// and know only the keys. A check of one value has its node at hand and needs nothing of this.
#pragma once

#include <string>

#include "penstock/base/config_node.h"
#include "penstock/base/error.h"

namespace penstock {

/// The message with the origin of the first dotted key ("model.heads") in it that `root` sets put
/// before it, and those of the others that come from elsewhere behind it:
///   "r.toml:9: model.router.k = 9 is above model.moe.experts = 8 (model.moe.experts: r.toml:4)"
/// A message that opens with an origin already, or names no such key, is left as it is.
std::string with_origins(const ConfigNode& root, const std::string& message);

/// What `action` returns; its Error gains the origins.
template <class Action>
auto naming_origins(const ConfigNode& root, Action action) {
  try {
    return action();
  } catch (const Error& error) {
    throw Error(with_origins(root, error.what()));
  }
}

}  // namespace penstock
