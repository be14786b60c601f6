// Makes line charts over the steps of training.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "penstock/report/mean_curve.h"
#include "penstock/report/sections.h"
#include "penstock/routers/logged_states.h"

namespace penstock::report {

using namespace study;

namespace {

using nlohmann::json;

// The share of a run's first steps that may be cut off. Their high losses would flatten the rest of
// the curve.
constexpr double kCutShare = 0.04;

/// What a chart of training adds to its curves or cuts off.
enum class Extra { none, first_steps_cut, sparsity_targets, clips };

struct TrainingChart {
  Chart chart;
  Extra extra = Extra::none;
};

/// A chart without its series. The chart's id is the name of the curve.
TrainingChart kind(const std::string& curve, const char* section, const std::string& title,
                   const std::string& caption, const std::string& y_title,
                   json axes = json::object(), Extra extra = Extra::none) {
  json drawn = {{"id", curve},
                {"x_title", "step"},
                {"y_title", y_title},
                {"x_min", 0},
                {"lines", json::array()}};
  drawn.update(axes);
  return {{.section = section, .title = title, .caption = caption, .drawn = std::move(drawn)},
          extra};
}

json over_log_steps(json axes) {
  axes.update({{"x_log", true}, {"x_min", 1}, {"x_title", "step (logarithmic)"}});
  return axes;
}

std::vector<TrainingChart> fixed_kinds() {
  const json from_zero = {{"y_min", 0}}, points = {{"points", true}};
  std::vector<TrainingChart> out{
      kind("loss", "loss", "Training loss",
           "Cross-entropy without auxiliary losses, smoothed over a fiftieth of the run.",
           "nats per token", json::object(), Extra::first_steps_cut),
      kind("validation_loss", "loss", "Validation loss",
           "Measured during training on a fixed part of the validation split, before the first "
           "step too.",
           "nats per token", points),
      kind("learning_rate", "training", "Learning rate", "", "learning rate", from_zero),
      kind("grad_norm", "training", "Gradient norm",
           "Of all parameters together, before clipping. Dashed: where it is clipped.", "norm",
           from_zero, Extra::clips),
      kind("tokens_per_second", "training", "Speed",
           "Tokens per second of each step, smoothed over a fiftieth of the run.",
           "tokens per second", from_zero),
      kind("communication", "ranks", "Exchange",
           "Share of each step that rank 0 spent in the exchange with other processes, waiting for "
           "them included, smoothed over a fiftieth of the run.",
           "share of the step", from_zero),
      kind("rank_seconds", "ranks", "Slowest process",
           "What the process that computed the longest took, ÷ the mean of all, smoothed over a "
           "fiftieth of the run: 1 is even.",
           "slowest ÷ mean"),
      kind("rank_load", "ranks", "Busiest experts",
           "Assignments to the experts of the process that has the most of them, ÷ the mean, over "
           "all layers, smoothed over a fiftieth of the run: 1 is even.",
           "busiest ÷ mean"),
      kind("imbalance", "routing", "Balance of the experts",
           "Standard deviation of the load over a layer’s experts ÷ its mean, mean over layers, "
           "smoothed over a fiftieth of the run: 0 is even.",
           "sd ÷ mean", from_zero),
      kind("sparsity", "routing", "Sparsity",
           "Mean over layers of the share of gates that are off.", "share of gates that are off",
           over_log_steps({{"y_max", 1}}), Extra::sparsity_targets),
      kind("active_experts", "routing", "Active experts",
           "Mean per token and MoE layer, while training.", "experts per token",
           over_log_steps(from_zero)),
  };
  for (const LoggedState& state : logged_states())
    out.push_back(kind(state.name, "routing", state.title, state.caption, state.symbol,
                       over_log_steps(state.logarithmic ? json{{"y_log", true}} : json::object())));
  return out;
}

/// One chart for each auxiliary loss of any run.
std::vector<TrainingChart> auxiliary_kinds(Variants variants) {
  std::set<std::string> names;
  for (const auto& variant : variants)
    for (const RunRow* row : variant.rows)
      for (const auto& [name, curve] : row->curves)
        if (auxiliary_loss(name)) names.insert(name);
  std::vector<TrainingChart> out;
  for (const auto& name : names)
    out.push_back(kind(name, "training", "Auxiliary loss: " + *auxiliary_loss(name),
                       "As it is added to the cross-entropy, summed over the MoE layers, smoothed "
                       "over a fiftieth of the run.",
                       "nats"));
  return out;
}

// A number for a chart, rounded to 6 digits to keep the page small; null if it is not finite.
json number(double value) {
  return std::isfinite(value) ? json(std::stod(fmt::format("{:.6g}", value))) : json();
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

/// The variant's tokens, FLOPs and seconds up to each of the steps, mean over its runs.
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

json series_of(Variants variants, const Chart& chart) {
  const bool logarithmic = chart.drawn.value("y_log", false);
  json out = json::array();
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const MeanCurve mean = mean_of(variants[i], chart.drawn["id"].get<std::string>(), logarithmic);
    if (mean.steps.empty()) continue;
    json series = {{"variant", i},
                   {"label", variants[i].label},
                   {"steps", mean.steps},
                   {"values", array(mean.mean)}};
    if (variants[i].rows.size() > 1) {
      series["low"] = array(mean.low);
      series["high"] = array(mean.high);
    }
    if (chart.section == "loss") series["costs"] = costs(variants[i], mean.steps);
    out.push_back(std::move(series));
  }
  return out;
}

/// Sets `y_max` so that the axis cuts off high losses of the first steps. All later values stay
/// visible, because readers look for rises and spikes. `y_max` is not set if it would cut nothing.
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

// Marks the borders of the stages: as bands if only one variant has stages, or else as lines in
// each variant's colour.
void mark_stages(json& out, Variants variants) {
  struct Border {
    std::size_t variant;
    Spread sparsifying, settled;
  };
  std::vector<Border> borders;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    if (const Spread begins = sparsifying_step(variants[i]); begins.count > 0)
      borders.push_back({i, begins, variants[i].settled_step});
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

/// Adds a dashed line at each level that `value` returns for a run.
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

Chart drawn(TrainingChart one_kind, Variants variants) {
  Chart chart = std::move(one_kind.chart);
  json& out = chart.drawn;
  out["series"] = series_of(variants, chart);
  double last = 1;
  for (const auto& one : out["series"]) last = std::max(last, one["steps"].back().get<double>());
  out["x_max"] = last;
  if (one_kind.extra == Extra::first_steps_cut) {
    cut_first_steps(out);
    if (out.contains("y_max")) chart.caption += " The axis leaves out values of the first steps.";
  }
  if (out.contains("x_log")) mark_stages(out, variants);
  if (one_kind.extra == Extra::sparsity_targets)
    mark_levels(out, variants, "target 1 − k/E", [](const RunRow& r) { return r.target_sparsity; });
  if (one_kind.extra == Extra::clips) mark_levels(out, variants, "clipped above", clip_of);
  if (std::ranges::any_of(variants, [](const VariantSummary& v) { return v.rows.size() > 1; }))
    chart.caption += " Lines are means over seeds, bands their range.";
  return chart;
}

}  // namespace

std::vector<Chart> training_charts(Variants variants) {
  std::vector<Chart> out;
  for (TrainingChart& one : fixed_kinds()) out.push_back(drawn(std::move(one), variants));
  for (TrainingChart& one : auxiliary_kinds(variants))
    out.push_back(drawn(std::move(one), variants));
  std::erase_if(out, [](const Chart& chart) { return chart.drawn["series"].empty(); });
  return out;
}

}  // namespace penstock::report
