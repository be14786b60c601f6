// The identity of a run's configuration: two runs with the same hash would do the same work.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "penstock/base/config_node.h"

namespace penstock::study {

/// FNV-1a, 64 bits (Fowler, Noll and Vo).
std::uint64_t fnv1a(std::string_view text);

/// 16 hex digits over the resolved recipe's canonical text, without name, description and [run]
/// (which change no result that is compared) and with the corpus's path replaced by its content's
/// hash. The seed counts.
std::string config_hash(const ConfigNode& resolved, const std::string& corpus_hash);

/// The tree as "a.b.c" → TOML text of the value.
std::map<std::string, std::string> flatten(const ConfigNode& root);

/// A flattened value without a string's quotes, for people; "" where the key is absent.
std::string plain_setting(const std::map<std::string, std::string>& flat, const std::string& key);

}  // namespace penstock::study
