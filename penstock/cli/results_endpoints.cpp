#include "penstock/cli/results_endpoints.h"

#include <memory>

#include "penstock/base/error.h"
#include "penstock/report/live_curves.h"
#include "penstock/report/report.h"
#include "penstock/serve/page.h"

namespace penstock {

std::map<std::string, std::function<serve::Reply()>> results_endpoints(
    const std::string& directory) {
  constexpr const char* kHtml = "text/html; charset=utf-8";
  const auto curves = std::make_shared<report::LiveCurves>(directory);
  return {{"/runs", [] { return serve::Reply{.type = kHtml, .body = std::string(serve::runs)}; }},
          {"/v1/runs", [curves] { return serve::Reply{.body = curves->json()}; }},
          {"/report", [directory] {
             try {
               return serve::Reply{.type = kHtml, .body = report::report_of(directory)};
             } catch (const Error& error) {
               return serve::Reply{
                   .status = 404, .type = "text/plain; charset=utf-8", .body = error.what()};
             }
           }}};
}

}  // namespace penstock
