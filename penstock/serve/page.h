// The page of GET /: one file, embedded when the library is built.
#pragma once

#include <string_view>

namespace penstock::serve {

extern const std::string_view page;

}  // namespace penstock::serve
