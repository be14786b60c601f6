// Rows to chart descriptions.
#include "penstock/study/charts.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "penstock/routers/logged_states.h"
#include "penstock/study/html.h"
#include "penstock/study/mean_curve.h"
#include "penstock/study/page.h"

namespace penstock::study {
namespace {

using nlohmann::json;

// Early steps would press the rest of a loss curve flat; the axis ends at the loss of this share of
// the run.
constexpr double kCutShare = 0.04;

/// How a curve is drawn; `y` and `x` are merged into the chart.
struct Kind {
  std::string curve;
  const char* section;
  std::string title, caption;
  std::string y_title;
  json options = json::object();
};

json over_log_steps(json options = json::object()) {
  options.update({{"x_log", true}, {"x_min", 1}, {"x_title", "step (logarithmic)"}});
  return options;
}

/// One for each number that some balancer logs.
std::vector<Kind> state_kinds() {
  std::vector<Kind> out;
  for (const LoggedState& state : logged_states()) {
    json options = over_log_steps();
    if (state.logarithmic) options["y_log"] = true;
    out.push_back({state.name, "routing", state.title, state.caption, state.symbol, options});
  }
  return out;
}

std::vector<Kind> fixed_kinds() {
  return {
      {"loss", "loss", "Training loss",
       "Cross-entropy without auxiliary losses, smoothed over a fiftieth of the run.",
       "nats per token"},
      {"validation_loss",
       "loss",
       "Validation loss",
       "Measured during training on a fixed part of the validation split, before the first step "
       "too.",
       "nats per token",
       {{"points", true}}},
      {"learning_rate", "training", "Learning rate", "", "learning rate", {{"y_min", 0}}},
      {"grad_norm",
       "training",
       "Gradient norm",
       "Of all parameters together, before clipping. Dashed: where it is clipped.",
       "norm",
       {{"y_min", 0}}},
      {"tokens_per_second",
       "training",
       "Speed",
       "Tokens per second of each step, smoothed over a fiftieth of the run.",
       "tokens per second",
       {{"y_min", 0}}},
      {"imbalance",
       "routing",
       "Balance of the experts",
       "Standard deviation of the load over a layer’s experts ÷ its mean, mean over layers, "
       "smoothed "
       "over a fiftieth of the run: 0 is even.",
       "sd ÷ mean",
       {{"y_min", 0}}},
      {"sparsity", "routing", "Sparsity", "Mean over layers of the share of gates that are off.",
       "share of gates that are off", over_log_steps({{"y_max", 1}})},
      {"active_experts", "routing", "Active experts",
       "Mean per token and MoE layer, while training.", "experts per token",
       over_log_steps({{"y_min", 0}})},
  };
}

/// One for each auxiliary loss that some run has.
std::vector<Kind> auxiliary_kinds(Variants variants) {
  std::set<std::string> names;
  for (const auto& variant : variants)
    for (const RunRow* row : variant.rows)
      for (const auto& [name, curve] : row->curves)
        if (auxiliary_loss(name)) names.insert(name);
  std::vector<Kind> out;
  for (const auto& name : names)
    out.push_back({name, "training", "Auxiliary loss: " + *auxiliary_loss(name),
                   "As it is added to the cross-entropy, summed over the MoE layers, smoothed over "
                   "a fiftieth of the run.",
                   "nats"});
  return out;
}

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

MeanCurve mean_of(const VariantSummary& variant, const std::string& name,
                  bool logarithmic = false) {
  std::vector<const Curve*> curves;
  for (const RunRow* row : variant.rows)
    if (const auto it = row->curves.find(name); it != row->curves.end())
      curves.push_back(&it->second);
  return mean_curve(curves, logarithmic);
}

/// What the variant had spent, on average, at each of those steps.
json costs(const VariantSummary& variant, const std::vector<double>& steps) {
  json out = json::object();
  if (const double tokens = variant.rows[0]->tokens_per_step(); tokens > 0) {
    out["tokens"] = json::array();
    for (const double step : steps) out["tokens"].push_back(number(step * tokens));
  }
  for (const char* name : {"flops", "seconds"}) {
    const MeanCurve mean = mean_of(variant, name);
    if (mean.steps.empty() || mean.mean.back() <= 0) continue;
    Curve spent{{0}, {0}};
    for (std::size_t i = mean.steps[0] == 0 ? 1 : 0; i < mean.steps.size(); ++i) {
      spent.steps.push_back(mean.steps[i]);
      spent.values.push_back(mean.mean[i]);
    }
    out[name] = json::array();
    for (const double step : steps) out[name].push_back(number(value_at(spent, step)));
  }
  return out;
}

json series_of(Variants variants, const Kind& kind) {
  const bool logarithmic = kind.options.value("y_log", false);
  json out = json::array();
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const MeanCurve mean = mean_of(variants[i], kind.curve, logarithmic);
    if (mean.steps.empty()) continue;
    json series = {{"variant", i},
                   {"label", variants[i].label},
                   {"steps", mean.steps},
                   {"values", array(mean.mean)}};
    if (variants[i].rows.size() > 1) {
      series["low"] = array(mean.low);
      series["high"] = array(mean.high);
    }
    if (kind.section == std::string("loss")) series["costs"] = costs(variants[i], mean.steps);
    out.push_back(std::move(series));
  }
  return out;
}

/// Lets the axis leave out the fall of the first steps, and no value after them: a loss that rises
/// or has spikes is what the chart is looked at for. `y_max` stays away where that cuts nothing.
void cut_first_steps(json& chart) {
  double highest = 0, later = 0;
  for (const auto& series : chart["series"]) {
    const auto steps = series["steps"].get<std::vector<double>>();
    const std::string name = series.contains("high") ? "high" : "values";
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const json& value = series[name][i];
      if (!value.is_number()) continue;
      highest = std::max(highest, value.get<double>());
      if (steps[i] >= kCutShare * steps.back()) later = std::max(later, value.get<double>());
    }
  }
  const double top = std::ceil(later * 20) / 20;
  if (top > 0 && top < highest) chart["y_max"] = number(top);
}

// The stages' borders, as bands where one variant has them and as lines in its colour otherwise.
void mark_stages(json& out, Variants variants) {
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

/// A dashed line at each value that `value` finds in the rows.
template <class F>
void mark_levels(json& out, Variants variants, const char* label, F value) {
  std::set<double> levels;
  for (const auto& variant : variants)
    for (const RunRow* row : variant.rows)
      if (const std::optional<double> level = value(*row)) levels.insert(*level);
  for (const double level : levels) out["lines"].push_back({{"y", level}, {"label", label}});
}

std::optional<double> clip_of(const RunRow& row) {
  const auto it = row.settings.find("train.clip");
  const double clip = it == row.settings.end() ? 0 : std::atof(it->second.c_str());
  return clip > 0 ? std::optional(clip) : std::nullopt;
}

json drawn(Variants variants, const Kind& kind) {
  double last = 1;
  json series = series_of(variants, kind);
  for (const auto& one : series) last = std::max(last, one["steps"].back().get<double>());
  json out = {{"id", kind.curve},
              {"series", std::move(series)},
              {"x_title", "step"},
              {"y_title", kind.y_title},
              {"x_min", 0},
              {"x_max", last},
              {"lines", json::array()}};
  out.update(kind.options);
  if (kind.curve == "loss") cut_first_steps(out);
  if (kind.options.contains("x_log")) mark_stages(out, variants);
  if (kind.curve == "sparsity")
    mark_levels(out, variants, "target 1 − k/E", [](const RunRow& r) { return r.target_sparsity; });
  if (kind.curve == "grad_norm") mark_levels(out, variants, "clipped above", clip_of);
  return out;
}

}  // namespace

std::vector<Chart> training_charts(std::span<const VariantSummary> variants) {
  const bool several_seeds =
      std::ranges::any_of(variants, [](const VariantSummary& v) { return v.rows.size() > 1; });
  std::vector<Kind> kinds = fixed_kinds();
  for (Kind& kind : state_kinds()) kinds.push_back(std::move(kind));
  for (Kind& kind : auxiliary_kinds(variants)) kinds.push_back(std::move(kind));
  std::vector<Chart> out;
  for (const Kind& kind : kinds) {
    json chart = drawn(variants, kind);
    if (chart["series"].empty()) continue;
    out.push_back({.section = kind.section,
                   .title = kind.title,
                   .caption = kind.caption,
                   .drawn = std::move(chart)});
    if (kind.curve == "loss" && out.back().drawn.contains("y_max"))
      out.back().caption += " The axis leaves out values of the first steps.";
    if (several_seeds) out.back().caption += " Lines are means over seeds, bands their range.";
  }
  return out;
}

std::string chart_section(std::span<const Chart> charts, const std::string& section,
                          const std::string& heading, const std::string& under) {
  std::string cards;
  for (const Chart& chart : charts)
    if (chart.section == section)
      cards += chart_card(chart.drawn["id"], chart.title, chart.caption);
  return cards.empty()
             ? ""
             : "<h2>" + heading + "</h2>" + under + "<div class=\"grid\">" + cards + "</div>";
}

}  // namespace penstock::study
