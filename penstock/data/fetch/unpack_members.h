// Unpacks some members of an archive into a folder.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace penstock {

/// Writes each member whose path ends in one of `members` to that path below `folder`, atomically.
/// Throws Error if the archive lacks one, or if another file has its path.
void unpack_members(const std::string& archive, std::span<const std::string_view> members,
                    const std::string& folder);

}  // namespace penstock
