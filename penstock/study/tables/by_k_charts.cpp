// Charts of quality by experts per token and by FLOPs: HyperRouter's Figure 1.
#include <cctype>
#include <set>

#include "penstock/study/tables/by_k_summary.h"

namespace penstock::study {
namespace {

using nlohmann::json;

json chart(const char* id, Quality quality) {
  return {
      {"id", id}, {"series", json::array()}, {"y_title", measure_title(quality)}, {"points", true}};
}

}  // namespace

json chart_line(const std::string& label, std::size_t variant) {
  json out = {{"variant", variant}, {"label", label}};
  for (const char* key : {"steps", "values", "low", "high", "trained"}) out[key] = json::array();
  return out;
}

void add_point(json& line, double x, const KSpread& point) {
  line["steps"].push_back(x);
  line["values"].push_back(point.mean);
  line["low"].push_back(point.low);
  line["high"].push_back(point.high);
}

std::vector<Chart> by_k_charts(std::span<const KSeries> all, Quality quality, bool several_seeds) {
  std::set<std::int64_t> ks;
  for (const auto& series : all)
    for (const auto& point : series.points)
      if (point.k > 0) ks.insert(point.k);
  json by_k = chart("by-k", quality), by_flops = chart("by-flops", quality);
  for (const auto& series : all) {
    if (series.points.empty()) continue;
    json over_k = chart_line(series.label, series.variant), over_flops = over_k;
    for (const auto& point : series.points) {
      if (point.k > 0)
        add_point(over_k, static_cast<double>(point.k), point);
      else
        for (const std::int64_t k : ks) add_point(over_k, static_cast<double>(k), point);
      add_point(over_flops, point.megaflops, point);
      if (point.k == 0 || static_cast<double>(point.k) != series.trained_k) continue;
      over_k["trained"].push_back(point.k);
      over_flops["trained"].push_back(point.megaflops);
    }
    if (!over_k["steps"].empty()) by_k["series"].push_back(std::move(over_k));
    by_flops["series"].push_back(std::move(over_flops));
  }
  if (quality == Quality::perplexity) by_k["y_log"] = by_flops["y_log"] = true;
  by_k["x_title"] = "experts per token k (logarithmic)";
  by_k["x_name"] = "k = ";
  by_k["x_log"] = true;
  by_k["x_ticks"] = ks;
  if (!ks.empty()) {
    by_k["x_min"] = 0.93 * static_cast<double>(*ks.begin());  // margin for the outer points
    by_k["x_max"] = static_cast<double>(*ks.rbegin()) / 0.93;
  }
  by_flops["x_title"] = "MFLOP per token, forward";
  by_flops["x_name"] = "MFLOP ";
  std::string title = measure_title(quality);
  title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  const std::string band = several_seeds ? " Lines are means over seeds, bands their range." : "";
  std::vector<Chart> out;
  if (!by_k["series"].empty())
    out.push_back({.title = title + " by experts per token",
                   .caption = "Lower is better. A ring marks the number of experts that a model "
                              "was trained with. A model without a number to set is a level line." +
                              band,
                   .drawn = std::move(by_k)});
  if (!by_flops["series"].empty())
    out.push_back(
        {.title = title + " by cost",
         .caption = "Useful FLOPs of a forward pass per token, of the same points." + band,
         .drawn = std::move(by_flops)});
  return out;
}

}  // namespace penstock::study
