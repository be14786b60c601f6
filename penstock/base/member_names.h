// Replaces the names of options structs' members and of config keys in the library's messages by
// names that the user knows. The callers give these names: the command line and a study's file have
// different ones.
#pragma once

#include <functional>
#include <string>

namespace penstock {

/// Replaces each `options.member` in `message` by `named(member)`, unless that is "". A member's
/// name consists of lower-case letters, digits and underscores.
std::string with_members(const std::string& message,
                         const std::function<std::string(const std::string& member)>& named);

/// Replaces each key below `model`, such as `model.moe.experts`, in `message` by `named(key)`,
/// unless that is "".
std::string with_model_keys(const std::string& message,
                            const std::function<std::string(const std::string& key)>& named);

}  // namespace penstock
