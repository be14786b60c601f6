// Replaces the names of options structs' members and of config keys in the library's messages by
// names that the reader knows. The names themselves are not here: the command line and a study's
// file each have their own.
#pragma once

#include <functional>
#include <string>

namespace penstock {

/// Replaces each `options.member` in `message` by `named(member)`. If that is "", the text stays as
/// it is. A member's name is lower-case letters, digits and underscores.
std::string with_members(const std::string& message,
                         const std::function<std::string(const std::string& member)>& named);

/// Replaces each key below `model`, such as `model.moe.experts`, in `message` by `named(key)`. If
/// that is "", the text stays as it is.
std::string with_model_keys(const std::string& message,
                            const std::function<std::string(const std::string& key)>& named);

}  // namespace penstock
