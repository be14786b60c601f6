// One model's page.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "penstock/study/by_k_charts.h"
#include "penstock/study/columns.h"
#include "penstock/study/html.h"
#include "penstock/study/page.h"

namespace penstock::study {

std::string by_k_page(const std::string& model, const std::string& measured,
                      std::span<const KFigures> points, double trained_k) {
  const std::string quality = "Bits per byte";
  KSeries series{.label = model, .trained_k = trained_k};
  std::string rows;
  for (const auto& point : points) {
    series.points.push_back({.k = point.k,
                             .megaflops = point.flops_per_token / 1e6,
                             .mean = point.bits_per_byte,
                             .low = point.bits_per_byte,
                             .high = point.bits_per_byte});
    rows += fmt::format(
        "<tr><td>{}</td><td>{:.4f}</td><td>{:.3f}</td><td>{:.4f}</td><td>{}</td><td>{:.0f}</td>"
        "<td>{}</td></tr>",
        point.k, point.loss, point.perplexity, point.bits_per_byte,
        with_prefix(point.flops_per_token, "FLOP"), point.tokens_per_second,
        with_prefix(point.peak_memory_bytes, "B"));
  }
  const nlohmann::json charts = {{"charts", by_k_charts(std::span(&series, 1), quality)}};
  return page(model + " by experts per token",
              "<h1>" + escape(model) +
                  "</h1><p class=\"claim\">Measured with each number of "
                  "experts per token; " +
                  escape(measured) + ".</p>" + by_k_chart_cards(quality, false) +
                  "<h2>Figures</h2><div class=\"card\"><div "
                  "class=\"scroll\"><table><tr><th>k</th><th>loss</th>"
                  "<th>perplexity</th><th>bits/byte</th><th>FLOPs per token, forward</th>"
                  "<th>tokens/s</th><th>memory</th></tr>" +
                  rows + "</table></div></div>",
              charts);
}

}  // namespace penstock::study
