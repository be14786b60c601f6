// Files that are part of the program: the report's style, its script and Chart.js. Their bytes are
// put into a generated .cpp when the project is built.
#pragma once

#include <string_view>

namespace penstock::report::assets {

extern const std::string_view chart_js;
extern const std::string_view report_css;
extern const std::string_view report_js;

}  // namespace penstock::report::assets
