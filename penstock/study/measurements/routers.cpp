// Measures a run's routers (report = ["entropy", "samples"]): their entropy by layer, at the run's
// checkpoint and before its first step, and their distributions at sample tokens. penstock/analysis
// has the formulas.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "penstock/analysis/analysis.h"
#include "penstock/analysis/refusals.h"
#include "penstock/base/progress.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/study/report_measurement.h"
#include "penstock/study/runs/opened_checkpoint.h"
#include "penstock/study/runs/results.h"
#include "penstock/train/evaluation_settings.h"
#include "penstock/train/initial_model.h"
#include "penstock/train/recipe.h"

namespace penstock::study::routers {
namespace {

using nlohmann::json;

/// Entropy of one layer's router over a split's tokens, in nats. The initial figures are of the
/// model before the first step, made from the seed or from the model that the run began with.
struct LayerEntropy {
  double mean = 0, sd = 0, initial_mean = 0, initial_sd = 0;
  template <class V>
  void visit(V& v) {
    v("mean", mean, Presence::required);
    v("sd", sd, Presence::required);
    v("initial_mean", initial_mean, Presence::required);
    v("initial_sd", initial_sd, Presence::required);
  }
};

/// A token's distributions over the experts, softmax of all logits, by layer.
struct TokenDistributions {
  std::string context;
  Matrix probabilities;  // [L][E]
  template <class V>
  void visit(V& v) {
    v("context", context);
    v("probabilities", probabilities, Presence::required);
  }
};

struct RouterReport {
  RunCheckpoint checkpoint = RunCheckpoint::final;
  std::int64_t step = 0;
  std::string split;
  double tokens = 0;
  std::string refused;  // why there is no entropy; "" if there is
  std::vector<LayerEntropy> layers;
  std::vector<TokenDistributions> samples;
  template <class V>
  void visit(V& v) {
    v("checkpoint", checkpoint);
    v("step", step);
    v("split", split);
    v("tokens", tokens);
    v("refused", refused);
    v("entropy", layers, Presence::required);
    v("samples", samples, Presence::required);
  }
};

std::optional<RouterReport> report_of(const RunRow& row) {
  return report_under<RouterReport>("routers", row);
}

/// Measures the routers on the measured split, which is read as in the run's last evaluation. For a
/// dense model and for routers without logits, the report says why it is empty.
RouterReport measured_routers(const FinishedRun& run, std::FILE* progress) {
  const auto opened = open_checkpoint(run.recipe, run.directory, run.checkpoint);
  const CheckpointInfo& info = opened.info;
  RouterReport out{.checkpoint = run.checkpoint, .step = info.step, .split = opened.split_text()};
  Recipe recipe = opened.recipe;
  recipe.model = read_model_config(info.directory.string());  // with the corpus's vocabulary
  out.refused = recipe.model.moe_layers() == 0 ? "a dense model has no routers"
                                               : analysis::refusals(recipe.model).entropy;
  if (!out.refused.empty()) return out;
  ProgressLine line(progress);
  const auto measured = [&](LanguageModel& model, const char* what) {
    EvaluateOptions reading = final_evaluation(recipe, opened.split);
    reading.progress = [&](double done, const LossTotals&) {
      if (line.due()) line.show(fmt::format("{} {:3.0f}%", what, 100 * done));
    };
    return analysis::measure(model, opened.corpus, {.reading = std::move(reading)});
  };
  const auto model = load_model(info.directory.string()), initial = initial_model(recipe);
  initial->eval();
  const analysis::ModelMeasures now = measured(*model, "routers"),
                                before = measured(*initial, "routers at step 0");
  line.finish();
  out.tokens = static_cast<double>(now.tokens);
  for (std::size_t l = 0; l < now.layers.size(); ++l) {
    const auto &entropy = *now.layers[l].entropy, &initially = *before.layers[l].entropy;
    out.layers.push_back({.mean = entropy.mean(),
                          .sd = entropy.sd(),
                          .initial_mean = initially.mean(),
                          .initial_sd = initially.sd()});
  }
  for (const auto& sample : analysis::sample_tokens(now.probe, 4))
    out.samples.push_back({.context = sample.context, .probabilities = sample.probabilities});
  return out;
}

/// "1.2345 ± 0.12": the means over those seeds of a variant that have the layer.
Cell mean_cell(std::span<const RouterReport> reports, std::size_t layer, double LayerEntropy::*mean,
               double LayerEntropy::*sd) {
  std::vector<double> means, deviations;
  for (const RouterReport& report : reports)
    if (layer < report.layers.size()) {
      means.push_back(report.layers[layer].*mean);
      deviations.push_back(report.layers[layer].*sd);
    }
  return means.empty()
             ? "–"
             : fmt::format("{:.4f} ± {:.2f}", spread(means).mean, spread(deviations).mean);
}

Cell published_entropy(const Comparison& comparison, const std::string& variant,
                       std::size_t layer) {
  const std::string name = fmt::format("layer{}", layer);
  const auto number = published_number(comparison, variant, name);
  const auto deviation = published_number(comparison, variant, name + "-sd");
  return !number     ? "–"
         : deviation ? fmt::format("{:.4f} ± {:.2f}", *number, *deviation)
                     : fmt::format("{:.4f}", *number);
}

std::vector<RouterReport> reports_of(const VariantSummary& variant) {
  std::vector<RouterReport> out;
  for (const RunRow* row : variant.rows)
    if (auto report = report_of(*row)) out.push_back(std::move(*report));
  return out;
}

/// Adds the rows of one variant: at the checkpoint, at step 0, and the paper's.
/// @param layers  the columns' numbers in the model
void add_entropies(Table& out, std::span<const std::int64_t> layers, const VariantSummary& variant,
                   std::size_t index, std::span<const RouterReport> reports,
                   const Comparison& comparison) {
  TableRow now{.cells = {variant.label}, .variant = index},
      before{.cells = {"at step 0"}, .beneath = true}, paper{.cells = {"paper"}, .beneath = true};
  bool published = false;
  for (std::size_t l = 0; const std::int64_t layer : layers) {
    if (variant.rows[0]->model_layer(l) != layer) {  // dense in this variant
      for (TableRow* const row : {&now, &before, &paper}) row->cells.emplace_back("–");
      continue;
    }
    now.cells.push_back(mean_cell(reports, l, &LayerEntropy::mean, &LayerEntropy::sd));
    before.cells.push_back(
        mean_cell(reports, l, &LayerEntropy::initial_mean, &LayerEntropy::initial_sd));
    paper.cells.push_back(published_entropy(comparison, variant.name, l));
    published |= paper.cells.back().text != "–";
    ++l;
  }
  out.rows.push_back(std::move(now));
  out.rows.push_back(std::move(before));
  if (published) out.rows.push_back(std::move(paper));
}

/// Entropy by layer, mean over seeds ± standard deviation over tokens; no section if no run
/// has entropies.
std::vector<Section> entropies(Variants variants, const Comparison& comparison) {
  std::set<std::int64_t> in_models;  // numbers of the layers with experts
  std::set<std::string> places, refused;
  for (const auto& variant : variants)
    for (const RouterReport& report : reports_of(variant)) {
      for (std::size_t l = 0; l < report.layers.size(); ++l)
        in_models.insert(variant.rows[0]->model_layer(l));
      if (report.refused.empty())
        places.insert(fmt::format("{} split, {:.0f} tokens, {} checkpoint", report.split,
                                  report.tokens, word(report.checkpoint)));
      else
        refused.insert(variant.label + ": not measured: " + report.refused);
    }
  if (in_models.empty()) return {};
  const std::vector<std::int64_t> layers(in_models.begin(), in_models.end());
  Table table{.columns = {"variant"}};
  for (const std::int64_t layer : layers)
    table.columns.emplace_back(fmt::format("layer {}", layer));
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const auto reports = reports_of(variants[i]);
    if (std::ranges::any_of(reports, [](const RouterReport& r) { return !r.layers.empty(); }))
      add_entropies(table, layers, variants[i], i, reports, comparison);
  }
  Section out{.title = "Router entropy by layer, nats",
              .tables = {std::move(table)},
              .note =
                  "Softmax of all logits, mean over the tokens ± standard deviation over the "
                  "tokens; both are means over the seeds. Measured on: "};
  for (const auto& place : places) out.note += (place == *places.begin() ? "" : "; ") + place;
  for (const auto& one : refused) out.note += ". " + one;
  return {out};
}

/// The end of the text, printable, after "…".
std::string shown_context(const std::string& text) {
  std::string out;
  for (const char c : text) out += c >= ' ' && c < 127 ? c : '.';
  return out.size() > 24 ? "…" + out.substr(out.size() - 24) : out;
}

/// Distributions at sample tokens, from each variant's first run that has any.
Section samples(Variants variants) {
  Section out{.title = "Distributions at sample tokens",
              .note =
                  "Softmax of all logits at tokens that are evenly spaced and not chosen, of "
                  "each variant’s first seed."};
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const auto reports = reports_of(variants[i]);
    const auto first = std::ranges::find_if(
        reports, [](const RouterReport& report) { return !report.samples.empty(); });
    if (first == reports.end()) continue;
    HeatMap map{.digits = 0, .scale = 100, .unit = " %"};
    for (const auto& sample : first->samples)
      for (std::size_t l = 0; l < sample.probabilities.size(); ++l)
        map.rows.push_back({.name = fmt::format("layer {}", variants[i].rows[0]->model_layer(l)),
                            .values = sample.probabilities[l],
                            .group = shown_context(sample.context)});
    if (map.rows.empty()) continue;
    for (std::size_t e = 0; e < map.rows.front().values.size(); ++e)
      map.columns.push_back(fmt::to_string(e));
    out.maps.push_back({.name = variants[i].label, .variant = i, .map = std::move(map)});
  }
  return out;
}

class Routers : public ReportMeasurement<RouterReport> {
 public:
  std::vector<std::string_view> report_words() const override { return {"entropy", "samples"}; }
  void settle(std::span<const std::string> report, const std::string& path) override {
    ReportMeasurement::settle(report, path);
    entropy_ = std::ranges::find(report, "entropy") != report.end();
  }
  std::string showable() const override {
    return "layer1 and layer1-sd with report = [\"entropy\"]";
  }
  bool shows(const std::string& name) const override {
    return entropy_ && name.starts_with("layer");
  }

  std::vector<Work> missing(const FinishedRun& run, const RunRow& row) const override {
    const auto have = report_of(row);
    if (!in_report_ || (have && have->checkpoint == run.checkpoint)) return {};
    return {
        {.what = fmt::format("measuring the routers of the {} checkpoint", word(run.checkpoint))}};
  }
  std::optional<json> measure(const FinishedRun& run, const Work&,
                              const TrainControl& control) const override {
    return write_json(measured_routers(run, control.progress));
  }

  std::vector<Section> sections(std::span<const RunRow> rows,
                                const Comparison& comparison) const override {
    const auto variants = summarize(rows);
    auto out = entropies(variants, comparison);
    if (Section shown = samples(variants); !shown.maps.empty()) out.push_back(std::move(shown));
    return out;
  }

 private:
  bool entropy_ = false;
};

const RegisterMeasurement<Routers> registered("routers");

}  // namespace
}  // namespace penstock::study::routers
