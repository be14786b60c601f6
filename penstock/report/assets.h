// Files embedded in the program: the report's style, its script and Chart.js. The build generates a
// .cpp with their bytes.
#pragma once

#include <string_view>

namespace penstock::report::assets {

extern const std::string_view chart_js;
extern const std::string_view report_css;
extern const std::string_view report_js;

}  // namespace penstock::report::assets
