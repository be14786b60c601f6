// Measures how many experts one training step switches on or off (report = ["flips"]): ReMoE's
// Figure 10. Each kept checkpoint of a run is loaded and trained for one step, the same step that
// the run made. The experts of fixed tokens are compared before and after the step.
// penstock/analysis has the formulas.
#include "penstock/analysis/flips.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "penstock/analysis/refusals.h"
#include "penstock/base/progress.h"
#include "penstock/ops/dispatch.h"
#include "penstock/study/report_measurement.h"
#include "penstock/study/runs/results.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/trainer.h"

namespace penstock::study::flips {
namespace {

using nlohmann::json;

constexpr std::int64_t kTokens = 4096;

/// The flip rate of the update after `step` steps.
struct Flip {
  std::int64_t step = 0;
  double rate = 0;
  template <class V>
  void visit(V& v) {
    v("step", step, Presence::required);
    v("rate", rate, Presence::required);
  }
};

struct Report {
  std::int64_t experts = 0, tokens = 0;
  std::string refused;
  std::vector<Flip> flips;
  template <class V>
  void visit(V& v) {
    v("experts", experts);
    v("tokens", tokens);
    v("refused", refused, Presence::if_filled);
    v("flips", flips, Presence::if_filled);
  }
};

std::optional<Report> report_of(const RunRow& row) { return report_under<Report>("flips", row); }

Report measured_flips(const FinishedRun& run, std::FILE* progress) {
  const Recipe recipe = read_recipe(run.recipe);
  ops::set_threads(static_cast<int>(recipe.run.threads));
  Report out{.experts = run.model.total_experts()};
  out.refused = run.model.moe_layers() == 0 ? "a dense model has no experts"
                                            : analysis::refusals(run.model).load;
  if (!out.refused.empty()) return out;
  const RunText text = open_text(recipe.data, /*verify=*/false);
  const analysis::CalibrationOptions options{.tokens = kTokens,
                                             .sequence_length = recipe.train.sequence_length};
  CheckpointStore store(real_file_system(), run.directory);
  ProgressLine line(progress);
  for (const std::int64_t step : store.steps()) {
    if (step >= recipe.train.steps) continue;  // the run made no step after it
    if (line.due()) line.show(fmt::format("flips of the step after {}", step));
    Trainer trainer(recipe, text);
    const CheckpointContents contents = store.load(step);
    trainer.restore(step, contents.model, contents.optimizer, store.directory(step).string());
    const at::Tensor before = analysis::active_experts(trainer.model(), text.measured, options);
    const StepOutcome outcome = trainer.advance();
    if (!outcome.failure.empty()) continue;
    out.flips.push_back(
        {.step = step,
         .rate = analysis::flip_rate(
             before, analysis::active_experts(trainer.model(), text.measured, options))});
    out.tokens = before.size(1);
  }
  line.finish();
  if (out.flips.empty())
    out.refused =
        "no checkpoint before the last one was kept; raise train.keep_last and set "
        "train.checkpoint_every";
  return out;
}

/// The variants' means over seeds, by step. `times_experts` turns rates into counts.
Table flip_table(Variants variants, const std::set<std::int64_t>& steps, bool times_experts) {
  Table out{.title = times_experts ? "Flip count: states that change, by token and layer"
                                   : "Flip rate: share of the states that change, %",
            .columns = {"variant"}};
  for (const std::int64_t step : steps) out.columns.emplace_back(fmt::format("after {}", step));
  for (std::size_t i = 0; i < variants.size(); ++i) {
    TableRow row{.cells = {variants[i].label}, .variant = i};
    bool any = false;
    for (const std::int64_t step : steps) {
      std::vector<double> values;
      for (const RunRow* run : variants[i].rows)
        if (const auto report = report_of(*run))
          for (const Flip& flip : report->flips)
            if (flip.step == step)
              values.push_back(flip.rate *
                               (times_experts ? static_cast<double>(report->experts) : 100));
      any |= !values.empty();
      row.cells.push_back(values.empty() ? Cell("–") : spread_cell(spread(values), fixed(3)));
    }
    if (any) out.rows.push_back(std::move(row));
  }
  return out;
}

class Flips : public ReportMeasurement<Report> {
 public:
  std::vector<std::string_view> report_words() const override { return {"flips"}; }
  std::vector<Work> missing(const FinishedRun&, const RunRow& row) const override {
    if (!in_report_ || report_of(row)) return {};
    return {{.what = "measuring the flips of single steps"}};
  }
  std::optional<json> measure(const FinishedRun& run, const Work&,
                              const TrainControl& control) const override {
    return write_json(measured_flips(run, control.progress));
  }

  std::vector<Section> sections(std::span<const RunRow> rows, const Comparison&) const override {
    const auto variants = summarize(rows);
    std::set<std::int64_t> steps;
    std::set<std::string> refused;  // a line for each variant, whose runs have one reason
    Section out{.title = "Flips of the routing"};
    std::int64_t tokens = 0;
    for (const RunRow& row : rows)
      if (const auto report = report_of(row)) {
        tokens = std::max(tokens, report->tokens);
        for (const Flip& flip : report->flips) steps.insert(flip.step);
        if (!report->refused.empty())
          refused.insert(row.label + ": not measured: " + report->refused);
      }
    for (const std::string& one : refused) out.remarks.push_back({one});
    if (steps.empty() && out.remarks.empty()) return {};
    if (!steps.empty())
      out.tables = {flip_table(variants, steps, false), flip_table(variants, steps, true)};
    out.note = fmt::format(
        "Experts of the same {} validation tokens before and after one step, over layers, tokens "
        "and experts; the count is the rate times the experts. A token that changes its one expert "
        "counts 2.",
        tokens);
    return {out};
  }
};

const RegisterMeasurement<Flips> registered("flips");

}  // namespace
}  // namespace penstock::study::flips
