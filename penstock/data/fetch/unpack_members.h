// Unpacks some members of an archive into a folder.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace penstock {

/// Writes each member whose path ends in one of `members` to that path below `folder`, complete or
/// not at all. Throws Error where the archive lacks one, and for another file in its place.
void unpack_members(const std::string& archive, std::span<const std::string_view> members,
                    const std::string& folder);

}  // namespace penstock
