// The pages, each one file, embedded when the library is built.
#pragma once

#include <string_view>

namespace penstock::serve {

/// Of models: GET / of `penstock serve`.
extern const std::string_view page;
/// Of runs and studies: their curves.
extern const std::string_view runs;

}  // namespace penstock::serve
