// Rows to chart descriptions.
#include "penstock/study/charts.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "penstock/study/mean_curve.h"

namespace penstock::study {
namespace {

using nlohmann::json;

// Early steps would press the rest of a loss curve flat; the axis ends at the loss of this share of
// the run.
constexpr double kCutShare = 0.04;

// A number that a chart can hold, short enough not to swell the page.
json number(double value) {
  return std::isfinite(value) ? json(std::stod([&] {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", value);
    return std::string(text);
  }()))
                              : json();
}

json array(const std::vector<double>& values) {
  json out = json::array();
  for (const double value : values) out.push_back(number(value));
  return out;
}

json series_of(std::span<const VariantSummary> variants, const char* name, bool logarithmic) {
  json out = json::array();
  for (std::size_t i = 0; i < variants.size(); ++i) {
    std::vector<const Curve*> curves;
    for (const RunRow* row : variants[i].rows)
      if (const auto it = row->curves.find(name); it != row->curves.end())
        curves.push_back(&it->second);
    const MeanCurve mean = mean_curve(curves, logarithmic);
    if (mean.steps.empty()) continue;
    json series = {{"variant", i},
                   {"label", variants[i].label},
                   {"steps", mean.steps},
                   {"values", array(mean.mean)}};
    if (curves.size() > 1) {
      series["low"] = array(mean.low);
      series["high"] = array(mean.high);
    }
    out.push_back(std::move(series));
  }
  return out;
}

json chart(const char* id, json series, const char* y_title) {
  double last = 1;
  for (const auto& one : series) last = std::max(last, one["steps"].back().get<double>());
  return {{"id", id},
          {"series", std::move(series)},
          {"x_title", "step"},
          {"y_title", y_title},
          {"x_max", last}};
}

json loss_chart(std::span<const VariantSummary> variants) {
  json out = chart("loss", series_of(variants, "loss", false), "nats per token");
  double top = 0;
  for (const auto& series : out["series"]) {
    const auto steps = series["steps"].get<std::vector<double>>();
    const auto at = std::ranges::lower_bound(steps, kCutShare * steps.back()) - steps.begin();
    const auto& value = series["values"][static_cast<std::size_t>(at)];
    if (value.is_number()) top = std::max(top, value.get<double>());
  }
  if (top > 0) out["y_max"] = number(std::ceil(top * 20) / 20);
  return out;
}

// The stages' borders, as bands where one variant has them and as lines in its colour otherwise.
void mark_stages(json& out, std::span<const VariantSummary> variants) {
  struct Border {
    std::size_t variant;
    Spread sparsifying, settled;
  };
  std::vector<Border> borders;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    std::vector<double> begins;
    for (const RunRow* row : variants[i].rows)
      if (row->stages.sparsifying) begins.push_back(static_cast<double>(*row->stages.sparsifying));
    if (!begins.empty()) borders.push_back({i, spread(begins), variants[i].settled_step});
  }
  if (borders.size() == 1) {
    const auto& [variant, two, three] = borders[0];
    const json end = three.count > 0 ? json(three.mean) : json();
    out["bands"] = {{{"from", nullptr}, {"to", two.mean}, {"label", "stage I"}, {"short", "I"}},
                    {{"from", two.mean}, {"to", end}, {"label", "stage II"}, {"short", "II"}}};
    if (three.count > 0)
      out["bands"].push_back(
          {{"from", end}, {"to", nullptr}, {"label", "stage III"}, {"short", "III"}});
    return;
  }
  for (const auto& [variant, two, three] : borders) {
    out["lines"].push_back({{"x", two.mean}, {"variant", variant}});
    if (three.count > 0) out["lines"].push_back({{"x", three.mean}, {"variant", variant}});
  }
}

void mark_targets(json& out, std::span<const VariantSummary> variants) {
  std::vector<double> targets;
  for (const auto& variant : variants)
    for (const RunRow* row : variant.rows)
      if (row->target_sparsity &&
          std::ranges::find(targets, *row->target_sparsity) == targets.end())
        targets.push_back(*row->target_sparsity);
  for (const double target : targets)
    out["lines"].push_back({{"y", target}, {"label", "target 1 − k/E"}});
}

}  // namespace

json chart_data(std::span<const VariantSummary> variants) {
  json charts = json::array();
  const auto add = [&](json chart) {
    if (!chart["series"].empty()) charts.push_back(std::move(chart));
  };
  add(loss_chart(variants));
  json validation =
      chart("validation", series_of(variants, "validation_loss", false), "nats per token");
  validation["points"] = true;
  validation["x_min"] = 0;
  add(std::move(validation));
  json sparsity =
      chart("sparsity", series_of(variants, "sparsity", false), "share of gates that are off");
  sparsity["lines"] = json::array();
  sparsity["y_max"] = 1;
  mark_stages(sparsity, variants);
  mark_targets(sparsity, variants);
  json active = chart("active", series_of(variants, "active_experts", false), "experts per token");
  active["lines"] = json::array();
  active["y_min"] = 0;
  mark_stages(active, variants);
  json lambda = chart("lambda", series_of(variants, "lambda", true), "λ");
  lambda["lines"] = json::array();
  mark_stages(lambda, variants);
  lambda["y_log"] = true;
  for (json* one : {&sparsity, &active, &lambda}) {
    (*one)["x_log"] = true;
    (*one)["x_min"] = 1;
    (*one)["x_title"] = "step (logarithmic)";
    add(std::move(*one));
  }
  return {{"charts", charts}};
}

bool has_chart(const json& data, const char* id) {
  return std::ranges::any_of(data["charts"], [&](const json& chart) { return chart["id"] == id; });
}

}  // namespace penstock::study
