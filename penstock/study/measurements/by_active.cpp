// Evaluates a run's checkpoint at several mean numbers of experts per token, by a shift of the
// logits (eval_active). This gives one trained model's quality for more or less compute, which is
// shown beside the quality of models whose tokens have k experts. eval/by_active.h measures it.
#include "penstock/eval/by_active.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "penstock/base/error.h"
#include "penstock/base/progress.h"
#include "penstock/study/report_measurement.h"
#include "penstock/study/runs/opened_checkpoint.h"
#include "penstock/study/tables/by_k_summary.h"
#include "penstock/train/evaluation_settings.h"

namespace penstock::study::by_active {
namespace {

using nlohmann::json;

struct Point {
  double active = 0, reached = 0, shift = 0;
  KFigures figures;
  template <class V>
  void visit(V& v) {
    v("active_experts", active, Presence::required);
    v("reached", reached, Presence::required);
    v("shift", shift, Presence::required);
    v("loss", figures.loss, Presence::required);
    v("perplexity", figures.perplexity, Presence::required);
    v("bits_per_byte", figures.bits_per_byte, Presence::required);
    v("flops_per_token", figures.flops_per_token, Presence::required);
    v("tokens_per_second", figures.tokens_per_second);
  }
};

struct Report {
  RunCheckpoint checkpoint = RunCheckpoint::final;
  std::int64_t step = 0;
  std::string split;
  double trained = 0;  // the target of training, experts per token
  std::vector<Point> points;
  template <class V>
  void visit(V& v) {
    v("checkpoint", checkpoint);
    v("step", step);
    v("split", split);
    v("trained", trained);
    v("points", points, Presence::required);
  }
  const Point* at(double active) const {
    const auto it = std::ranges::find(points, active, &Point::active);
    return it == points.end() ? nullptr : &*it;
  }
};

std::optional<Report> report_of(const RunRow& row) {
  return report_under<Report>("by_active", row);
}

/// Evaluates the checkpoint at each mean number with the settings of the recipe's last evaluation.
Report measured_run(const FinishedRun& run, std::span<const double> values, std::FILE* progress) {
  const auto opened = open_checkpoint(run.recipe, run.directory, run.checkpoint);
  const auto model = opened.model();
  Report out{.checkpoint = run.checkpoint,
             .step = opened.info.step,
             .split = opened.split_text(),
             .trained = model->config().active_experts()};
  ProgressLine line(progress);
  for (const ActiveFigures& one :
       evaluate_by_active(*model, opened.corpus, final_evaluation(opened.recipe, opened.split),
                          values, [&](double active, double done, const LossTotals&totals) {
                            if (line.due())
                              line.show(fmt::format("{} experts  {:3.0f}%  bits per byte {:.4f}",
                                                    active, 100 * done, totals.bits_per_byte()));
                          }))
    out.points.push_back(
        {.active = one.wanted, .reached = one.reached, .shift = one.shift, .figures = one.figures});
  line.finish();
  return out;
}

/// A figure of a run's point at the mean number `active`; no value if the run has no such point.
template <class F>
Figure figure_at(double active, F value) {
  return [=](const RunRow& row) -> std::optional<double> {
    const auto report = report_of(row);
    const Point* const point = report ? report->at(active) : nullptr;
    return point ? std::optional(value(point->figures)) : std::nullopt;
  };
}

Figure quality_figure(double active, Quality measure) {
  return figure_at(active,
                   [measure](const KFigures& figures) { return quality_of(figures, measure); });
}

Figure flops_figure(double active) {
  return figure_at(active, [](const KFigures& figures) { return figures.flops_per_token; });
}

std::set<double> own_values(const VariantSummary& variant) {
  std::set<double> out;
  for (const RunRow* row : variant.rows)
    if (const auto report = report_of(*row))
      for (const Point& point : report->points) out.insert(point.active);
  return out;
}

std::set<double> all_values(Variants variants) {
  std::set<double> out;
  for (const auto& variant : variants) out.merge(own_values(variant));
  return out;
}

/// A table of the variants with points. Its columns are the mean numbers of experts.
Table table_of(Variants variants, const std::string& title, const std::string& first,
               const std::function<Cell(const VariantSummary&, double active)>& cell) {
  Table out{.title = title, .columns = {first}};
  const std::set<double> values = all_values(variants);
  for (const double active : values) out.columns.emplace_back(fmt::format("{:g}", active));
  for (std::size_t i = 0; i < variants.size(); ++i) {
    if (own_values(variants[i]).empty()) continue;
    TableRow& row = out.rows.emplace_back();
    row = {.cells = {variants[i].label}, .variant = i};
    for (const double active : values) row.cells.push_back(cell(variants[i], active));
  }
  return out;
}

/// A variant's curve over experts, or over FLOPs.
json curve_of(const VariantSummary& variant, std::size_t colour, Quality measure, bool over_flops) {
  json out = chart_line(variant.label, colour);
  double trained = 0;
  for (const RunRow* row : variant.rows)
    if (const auto report = report_of(*row)) trained = report->trained;
  for (const double active : own_values(variant)) {
    const KSpread point =
        spread_point(variant, quality_figure(active, measure), flops_figure(active));
    const double x = over_flops ? point.megaflops : active;
    add_point(out, x, point);
    if (active == trained) out["trained"].push_back(x);
  }
  return out;
}

/// A curve by k, over FLOPs.
json curve_of(const KSeries& series) {
  json out = chart_line(series.label + ", by k", series.variant);
  for (const KSpread& point : series.points) {
    add_point(out, point.megaflops, point);
    if (point.k > 0 && static_cast<double>(point.k) == series.trained_k)
      out["trained"].push_back(point.megaflops);
  }
  return out;
}

Chart chart_of(Variants variants, const Comparison& comparison, bool over_flops) {
  json lines = json::array();
  for (std::size_t i = 0; i < variants.size(); ++i)
    if (!own_values(variants[i]).empty())
      lines.push_back(curve_of(variants[i], i, comparison.measure, over_flops));
  if (over_flops)
    for (const KSeries& series : k_series(variants, comparison)) lines.push_back(curve_of(series));
  json drawn = {
      {"id", over_flops ? "by-active-flops" : "by-active"},
      {"series", lines},
      {"y_title", measure_title(comparison.measure)},
      {"points", true},
      {"x_title", over_flops ? "MFLOP per token, forward" : "mean experts per token (logarithmic)"},
      {"x_name", over_flops ? "MFLOP " : "experts "}};
  if (!over_flops) {
    const auto values = all_values(variants);
    drawn.update({{"x_log", true},
                  {"x_ticks", values},
                  {"x_min", 0.93 * *values.begin()},
                  {"x_max", *values.rbegin() / 0.93}});
  }
  return {.title = over_flops ? "Quality for compute at inference" : "Quality by active experts",
          .caption = over_flops ? "Useful FLOPs of a forward pass per token. Models whose tokens "
                                  "ask for k experts stand beside, where they were measured by k."
                                : "Lower is better. A ring marks what training aimed at.",
          .drawn = std::move(drawn)};
}

class ByActive : public ReportMeasurement<Report> {
 public:
  void read_keys(FieldReader& keys, KeysOf part) override {
    if (part == KeysOf::command_line) return;
    std::optional<std::vector<double>> requested;
    keys("eval_active", requested,
         {.help = "mean numbers of active experts per token at which finished runs with ReLU gates "
                  "are measured, set by a shift of the logits",
          .min = 0});
    if (requested) requested_ = std::move(*requested);
  }
  void settle(std::span<const std::string>, const std::string& path) override {
    PENSTOCK_CHECK(std::set(requested_.begin(), requested_.end()).size() == requested_.size(), path,
                   ": eval_active has the same number twice");
    PENSTOCK_CHECK(std::ranges::find(requested_, 0) == requested_.end(), path,
                   ": eval_active has a 0: no shift leaves a mean of no experts");
  }

  std::vector<Work> missing(const FinishedRun& run, const RunRow& row) const override {
    std::vector<double> lacking;
    const auto have = report_of(row);
    if (why_no_shift(run.model).empty())
      for (const double active : requested_)
        if (active <= static_cast<double>(run.model.total_experts()) &&
            (!have || have->checkpoint != run.checkpoint || !have->at(active)))
          lacking.push_back(active);
    if (lacking.empty()) return {};
    return {
        {.what = fmt::format("measuring the {} checkpoint by active experts", word(run.checkpoint)),
         .asked = lacking}};
  }
  std::optional<json> measure(const FinishedRun& run, const Work& work,
                              const TrainControl& control) const override {
    return write_json(measured_run(run, work.asked.get<std::vector<double>>(), control.progress));
  }
  void keep(const FinishedRun& run, const Work& work, const json& result,
            RunRow& row) const override {
    auto more = read_json<Report>(result, "by active");
    const auto have = report_of(row);
    if (have && have->checkpoint == more.checkpoint && have->step == more.step &&
        have->split == more.split)
      for (const Point& point : have->points)
        if (!more.at(point.active)) more.points.push_back(point);
    std::ranges::sort(more.points, {}, &Point::active);
    ReportMeasurement::keep(run, work, write_json(more), row);
  }

  std::vector<Section> sections(std::span<const RunRow> rows,
                                const Comparison& comparison) const override {
    const auto variants = summarize(rows);
    if (all_values(variants).empty()) return {};
    const auto quality = [&](const VariantSummary& variant, double active) {
      return spread_cell(spread_of(variant, quality_figure(active, comparison.measure)),
                         [&](double value) { return quality_text(value, comparison.measure); });
    };
    const auto flops = [](const VariantSummary& variant, double active) {
      const auto megaflops = [](const KFigures& figures) { return figures.flops_per_token / 1e6; };
      return spread_cell(spread_of(variant, figure_at(active, megaflops)), fixed(3));
    };
    return {
        {.title = "By active experts",
         .charts = {chart_of(variants, comparison, false), chart_of(variants, comparison, true)},
         .tables = {table_of(variants,
                             measure_title(comparison.measure) + " with a mean of so many experts",
                             one_run(variants) ? "" : "variant", quality),
                    table_of(variants, "", "MFLOP per token, forward", flops)},
         .note = "One number is added to every logit of every layer, so that tokens have that "
                 "mean number of experts over layers; the model is not trained on. Mean ± "
                 "standard deviation over seeds."}};
  }

 private:
  std::vector<double> requested_;
};

const RegisterMeasurement<ByActive> registered("by_active");

}  // namespace
}  // namespace penstock::study::by_active
