// Puts a page's HTML together: head, body, data and scripts.
#include "penstock/report/page.h"

#include <nlohmann/json.hpp>

#include "penstock/report/assets.h"
#include "penstock/report/html.h"

namespace penstock::report {

std::string page(const std::string& title, const std::string& body, const nlohmann::json& data) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "script-src 'unsafe-inline'; style-src 'unsafe-inline'\"><title>";
  out += escape(title) + "</title><style>\n";
  out += assets::report_css;
  out += "</style></head><body><main>" + body;
  out += "<footer>Written by Penstock " PENSTOCK_VERSION
         ". Charts by Chart.js (MIT licence).</footer></main>";
  out +=
      "<script type=\"application/json\" id=\"data\">" + script_json(data) + "</script>\n<script>";
  out += assets::chart_js;
  out += "</script>\n<script>\n";
  out += assets::report_js;
  return out + "</script></body></html>\n";
}

nlohmann::json drawn_by_script(std::span<const study::Chart> charts) {
  nlohmann::json out = {{"charts", nlohmann::json::array()}};
  for (const auto& chart : charts) out["charts"].push_back(chart.drawn);
  return out;
}

}  // namespace penstock::report
