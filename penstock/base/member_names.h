// The members of options structs that messages of the library name, in the words of whoever reads
// them. Not which words those are: the command line and a study's file each have their own.
#pragma once

#include <functional>
#include <string>

namespace penstock {

/// `message` with what `named` says of a member in place of each `options.member`; "" leaves the
/// text as it is. A member is lower-case letters and underscores.
std::string with_members(const std::string& message,
                         const std::function<std::string(const std::string& member)>& named);

}  // namespace penstock
