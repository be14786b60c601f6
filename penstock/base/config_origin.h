// Adds file and line of the keys that an error message names. It is for checks that compare several
// values and know only their keys. A check of one value has the value's node and does not need it.
#pragma once

#include <string>

#include "penstock/base/config_node.h"
#include "penstock/base/error.h"

namespace penstock {

/// The node's origin, or the origin of the first value below it. A table that a dotted key made, as
/// in an override, has no origin of its own.
std::string origin_of(const ConfigNode& node);

/// Adds origins to a message that names dotted keys ("model.heads") which `root` sets. The origin
/// of the first key is put before the message, other origins of the other keys after it:
///   "r.toml:9: model.router.k = 9 is above model.moe.experts = 8 (model.moe.experts: r.toml:4)"
/// Where the origin is an override of a text and the message opens with the same text, that is said
/// once: "--set data.corpus=a: there is no such folder".
/// A message that already opens with an origin, or names no key that `root` sets, is unchanged.
std::string with_origins(const ConfigNode& root, const std::string& message);

/// Returns the result of `action`. An Error that `action` throws gains the origins of its keys.
template <class Action>
auto naming_origins(const ConfigNode& root, Action action) {
  try {
    return action();
  } catch (const Error& error) {
    throw Error(with_origins(root, error.what()));
  }
}

}  // namespace penstock
