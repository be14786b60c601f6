// The page of one model evaluated at several numbers of experts per token.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "penstock/report/html.h"
#include "penstock/report/page.h"
#include "penstock/report/pages.h"
#include "penstock/study/tables/by_k_summary.h"

namespace penstock::report {

std::string by_k_page(const std::string& model, const std::string& measured,
                      std::span<const KFigures> points, double trained_k) {
  study::KSeries series{.label = model, .trained_k = trained_k};
  study::Table table{.columns = {"k", "loss", "perplexity", "bits/byte", "FLOPs per token, forward",
                                 "tokens/s", "memory"}};
  for (const auto& point : points) {
    series.points.push_back({.k = point.k,
                             .megaflops = point.flops_per_token / 1e6,
                             .mean = point.bits_per_byte,
                             .low = point.bits_per_byte,
                             .high = point.bits_per_byte});
    table.rows.push_back(
        {{fmt::to_string(point.k), study::fixed(4)(point.loss), study::fixed(3)(point.perplexity),
          study::fixed(4)(point.bits_per_byte), study::with_prefix(point.flops_per_token, "FLOP"),
          study::fixed(0)(point.tokens_per_second),
          study::with_prefix(point.peak_memory_bytes, "B")}});
  }
  study::Section figures{
      .title = "Figures",
      .charts = study::by_k_charts(std::span(&series, 1), study::Quality::bits_per_byte,
                                   /*several_seeds=*/false),
      .tables = {std::move(table)}};
  return page(
      model + " by experts per token",
      heading(model, "Measured with each number of experts per token; " + measured + ".", {}) +
          section_html(figures),
      drawn_by_script(figures.charts));
}

}  // namespace penstock::report
