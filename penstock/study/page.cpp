// The frame.
#include "penstock/study/page.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "penstock/study/assets.h"
#include "penstock/study/html.h"

namespace penstock::study {

std::string page(const std::string& title, const std::string& body, const nlohmann::json& charts) {
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
  out += "<script type=\"application/json\" id=\"data\">" + script_json(charts) +
         "</script>\n<script>";
  out += assets::chart_js;
  out += "</script>\n<script>\n";
  out += assets::report_js;
  return out + "</script></body></html>\n";
}

std::string chart_card(const std::string& id, const std::string& title,
                       const std::string& caption) {
  return fmt::format(
      "<figure class=\"card\"><h3>{0}</h3><div class=\"chart\"><canvas id=\"{1}\" role=\"img\" "
      "aria-label=\"{0}\"></canvas></div><figcaption>{2}</figcaption></figure>",
      escape(title), escape(id), escape(caption));
}

}  // namespace penstock::study
