// Measures the speed of training and of inference in FLOPs per second (report = ["throughput"]):
// ReMoE's Table 7. The speed of training is from the run's log. Inference is one pass over the
// measured split with the run's checkpoint.
#include <fmt/format.h>

#include "penstock/eval/by_k.h"
#include "penstock/study/report_measurement.h"
#include "penstock/study/runs/opened_checkpoint.h"
#include "penstock/study/runs/results.h"
#include "penstock/train/evaluation_settings.h"

namespace penstock::study::throughput {
namespace {

using nlohmann::json;

struct Inference {
  RunCheckpoint checkpoint = RunCheckpoint::final;
  double tokens_per_second = 0, flops_per_token = 0;
  template <class V>
  void visit(V& v) {
    v("checkpoint", checkpoint);
    v("tokens_per_second", tokens_per_second, Presence::required);
    v("flops_per_token", flops_per_token, Presence::required);
  }
};

std::optional<Inference> inference_of(const RunRow& row) {
  return report_under<Inference>("throughput", row);
}

Inference measured_inference(const FinishedRun& run) {
  const auto opened = open_checkpoint(run.recipe, run.directory, run.checkpoint);
  const KFigures figures = evaluate_at_k(*opened.model(), opened.corpus,
                                         final_evaluation(opened.recipe, opened.split), 0)
                               .figures;
  return {.checkpoint = run.checkpoint,
          .tokens_per_second = figures.tokens_per_second,
          .flops_per_token = figures.flops_per_token};
}

class Throughput : public ReportMeasurement<Inference> {
 public:
  std::vector<std::string_view> report_words() const override { return {"throughput"}; }
  bool shows(const std::string& name) const override {
    return in_report_ && (name == "train-tflops" || name == "infer-tflops");
  }
  std::string showable() const override {
    return "train-tflops and infer-tflops with report = [\"throughput\"]";
  }
  std::vector<Work> missing(const FinishedRun& run, const RunRow& row) const override {
    const auto have = inference_of(row);
    if (!in_report_ || (have && have->checkpoint == run.checkpoint)) return {};
    return {{.what = "measuring the speed of inference"}};
  }
  std::optional<json> measure(const FinishedRun& run, const Work&,
                              const TrainControl&) const override {
    return write_json(measured_inference(run));
  }

  std::vector<Section> sections(std::span<const RunRow> rows,
                                const Comparison& comparison) const override {
    const auto variants = summarize(rows);
    Table table{.columns = {"variant", "training", "inference"}};
    const auto speed = [](double flops) { return with_prefix(flops, "FLOP/s"); };
    for (std::size_t i = 0; i < variants.size(); ++i) {
      const Spread infer = spread_of(variants[i], [](const RunRow& row) -> std::optional<double> {
        const auto one = inference_of(row);
        return one ? std::optional(one->tokens_per_second * one->flops_per_token) : std::nullopt;
      });
      if (infer.count == 0) continue;
      // The share of the peak is a median over steps. A run's dense stages hardly affect it,
      // because they have few steps.
      const Spread train = spread_of(variants[i], [](const RunRow& row) -> std::optional<double> {
        const double flops = row.share_of_peak * row.peak_flops;
        return flops > 0 ? std::optional(flops) : std::nullopt;
      });
      table.rows.push_back(
          {.cells = {variants[i].label, spread_cell(train, speed), spread_cell(infer, speed)},
           .variant = i});
      const auto paper = [&](const char* name) -> Cell {
        const auto number = published_number(comparison, variants[i].name, name);
        return number ? fmt::format("{:g} TFLOP/s", *number) : "–";
      };
      TableRow published{.cells = {"paper", paper("train-tflops"), paper("infer-tflops")},
                         .beneath = true};
      if (published.cells[1].text != "–" || published.cells[2].text != "–")
        table.rows.push_back(std::move(published));
    }
    if (table.rows.empty()) return {};
    return {{.title = "Useful FLOPs per second",
             .tables = {std::move(table)},
             .note = "Training: the median over the steps. Inference: the passes of the last "
                     "evaluation, without a cache. FLOPs are those of the experts that are on."}};
  }
};

const RegisterMeasurement<Throughput> registered("throughput");

}  // namespace
}  // namespace penstock::study::throughput
