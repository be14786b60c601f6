// The web pages. Each is one file that the build embeds in the library.
#pragma once

#include <string_view>

namespace penstock::serve {

/// The page for models: GET / of `penstock serve`.
extern const std::string_view page;
/// The page with the curves of runs and studies.
extern const std::string_view runs;

}  // namespace penstock::serve
