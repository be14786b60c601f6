#include "penstock/study/runs/run_reader.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "penstock/base/median.h"
#include "penstock/io/toml.h"
#include "penstock/routers/logged_states.h"
#include "penstock/study/config/config_hash.h"
#include "penstock/study/measurement.h"
#include "penstock/study/runs/run_folder.h"
#include "penstock/study/runs/stages.h"
#include "penstock/study/statistics.h"

namespace penstock::study {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kFinished = "finished.json";
constexpr const char* kCurves[] = {"loss",      "sparsity",          "active_experts",
                                   "grad_norm", "tokens_per_second", "learning_rate"};
// The curves that are noisy from step to step.
constexpr const char* kSmoothed[] = {"loss",          "tokens_per_second", "imbalance",
                                     "communication", "rank_seconds",      "rank_load"};
constexpr std::size_t kPointsPerSpacing = 80;

struct Metrics {
  std::map<std::string, Curve> curves;
  RankReader ranks;
  std::vector<double> tokens_per_second, share_of_peak;
  std::vector<std::vector<double>> sparsity_by_layer;  // by step after the warm-up
  double total_flops = 0, peak_bytes = 0, seconds = 0;
  std::int64_t last_step = 0;
  json last_validation;
};

double number_in(const json& object, const std::string& name, const std::string& where,
                 double otherwise = NAN) {
  return field_of(object, name.c_str(), where, otherwise);
}

void add_point(Curve& curve, double step, double value) {
  // A resumed run repeats no step. A line that repeats a step is left out, so that no curve goes
  // backwards.
  if (!curve.steps.empty() && step <= curve.steps.back()) return;
  curve.steps.push_back(step);
  curve.values.push_back(value);
}

void add_line(Metrics& metrics, const json& line, const std::string& where) {
  const double step = number_in(line, "step", where);
  PENSTOCK_CHECK(step >= 0 && step < 1e15, where, ": step is out of range");
  metrics.last_step = std::max(metrics.last_step, static_cast<std::int64_t>(step));
  const auto add = [&](const std::string& name, double value) {
    if (std::isfinite(value)) add_point(metrics.curves[name], step, value);
  };
  for (const char* name : kCurves) add(name, number_in(line, name, where));
  for (const LoggedState& state : logged_states())
    add(state.name, number_in(line, state.name, where));
  add("consistency", number_in(line, "consistency", where));
  if (const auto losses = line.find("auxiliary_losses"); losses != line.end()) {
    PENSTOCK_CHECK(losses->is_object(), where, ": 'auxiliary_losses' is not an object");
    for (const auto& [part, value] : losses->items())
      add(kAuxiliaryLosses + part, number_in(*losses, part, where));
  }
  if (const auto layers = line.find("sparsity_by_layer");
      layers != line.end() && step > LayerSparsity::kWarmUp)
    metrics.sparsity_by_layer.push_back(
        read_json<std::vector<double>>(*layers, where + ": sparsity_by_layer"));
  if (const auto load = line.find("load"); load != line.end())
    add("imbalance", imbalance(read_json<Matrix>(*load, where + ": load")));
  add("communication",
      number_in(line, "communication_seconds", where) / number_in(line, "step_seconds", where));
  for (const char* name : {"rank_seconds", "rank_load"}) add(name, spread_in(line, name, where));
  metrics.ranks.add(line, where);
  if (const double value = number_in(line, "tokens_per_second", where, 0); value > 0)
    metrics.tokens_per_second.push_back(value);
  if (const double value = number_in(line, "share_of_peak", where, 0); value > 0)
    metrics.share_of_peak.push_back(value);
  metrics.total_flops += number_in(line, "flops", where, 0);
  metrics.peak_bytes = std::max(metrics.peak_bytes, number_in(line, "peak_bytes", where, 0));
  metrics.seconds = std::max(metrics.seconds, number_in(line, "seconds", where, 0));
  add("flops", metrics.total_flops);
  add("seconds", metrics.seconds);
  if (const auto it = line.find("validation"); it != line.end() && it->is_object()) {
    metrics.last_validation = *it;
    add("validation_loss", number_in(*it, "loss", where));
  }
}

Metrics read_metrics(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  PENSTOCK_CHECK(in, path,
                 ": cannot be opened, and what is shown of a run is read from it; put the file "
                 "back, or, if it is lost, resume the run without its finished.json, which begins "
                 "a new log");
  Metrics metrics;
  std::string text;
  for (int number = 1; std::getline(in, text); ++number) {
    if (text.empty()) continue;
    const json line = json::parse(text, nullptr, false);
    const bool whole = !line.is_discarded() && line.is_object();
    if (!whole && in.peek() == EOF) break;  // a kill cut the last write short
    const std::string where = concat(path, ":", number);
    PENSTOCK_CHECK(whole, where,
                   ": is not a JSON object, so the log was damaged; put the line back, or delete "
                   "it: curves are then without its step");
    add_line(metrics, line, where);
  }
  return metrics;
}

// Keeps points that are evenly spaced in the step, and points that are evenly spaced in its
// logarithm, so that the curve looks smooth on either axis.
Curve thinned(const Curve& curve) {
  const std::size_t count = curve.steps.size();
  if (count <= 2 * kPointsPerSpacing) return curve;
  std::set<std::size_t> picked{0, count - 1};
  for (std::size_t i = 1; i < kPointsPerSpacing; ++i) {
    const double share = static_cast<double>(i) / kPointsPerSpacing;
    picked.insert(static_cast<std::size_t>(share * static_cast<double>(count - 1)));
    picked.insert(static_cast<std::size_t>(std::pow(static_cast<double>(count), share)) - 1);
  }
  Curve out;
  for (const std::size_t i : picked) {
    out.steps.push_back(curve.steps[i]);
    out.values.push_back(curve.values[i]);
  }
  return out;
}

/// Sparsity by layer; no value if all steps are warm-up, or if the number of layers changes.
std::optional<LayerSparsity> layer_sparsity(const std::vector<std::vector<double>>& steps) {
  if (steps.empty()) return std::nullopt;
  const std::size_t layers = steps[0].size();
  const auto count = static_cast<double>(steps.size());
  LayerSparsity out{
      .steps = count, .mean = std::vector<double>(layers), .sd = std::vector<double>(layers)};
  for (const auto& step : steps) {
    if (step.size() != layers) return std::nullopt;
    for (std::size_t l = 0; l < layers; ++l) out.mean[l] += step[l] / count;
  }
  for (const auto& step : steps)
    for (std::size_t l = 0; l < layers; ++l)
      out.sd[l] += (step[l] - out.mean[l]) * (step[l] - out.mean[l]) / count;
  for (double& value : out.sd) value = std::sqrt(value);
  return out;
}

std::string date_of(const std::string& path) {
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  if (error) return "";
  const std::time_t time = std::chrono::system_clock::to_time_t(std::chrono::file_clock::to_sys(
      std::chrono::time_point_cast<std::chrono::file_clock::duration>(written)));
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%d", &utc));
}

/// The regulariser by stage; no value if no balancer logs its regulariser, or if its loss was not
/// added.
std::optional<StageRegulariser> stage_regulariser(const std::map<std::string, Curve>& curves,
                                                  const Stages& stages) {
  for (const auto& [part, state] : logged_regularisers()) {
    const auto unweighted = curves.find(state), weighted = curves.find(kAuxiliaryLosses + part);
    if (unweighted != curves.end() && weighted != curves.end())
      return StageRegulariser{.unweighted = stage_means(unweighted->second, stages),
                              .weighted = stage_means(weighted->second, stages)};
  }
  return std::nullopt;
}

struct Warning {
  std::int64_t step = 0;
  std::string finding, remedy;
  template <class V>
  void visit(V& v) {
    v("step", step, Presence::required);
    v("finding", finding);
    v("remedy", remedy);
  }
};

void read_result(const std::string& run_directory, RunRow& row) {
  const std::string path = (fs::path(run_directory) / kFinished).string();
  std::ifstream file(path);
  PENSTOCK_CHECK(file, path, ": cannot be opened");  // an unreadable file may be undamaged
  try {
    const json finished = read_kept_object(run_directory, kFinished).value_or(json::object());
    PENSTOCK_CHECK(finished.contains("steps"), path,
                   ": says no number of steps, so it was damaged");
    JsonReader reader(finished, path);
    row.visit_figures(reader);
    // The log may have lost lines since. Variants that match the run's compute depend on the sum.
    row.total_flops = field_of<double>(finished, "flops", path, row.total_flops);
    for (const Warning& one : field_of<std::vector<Warning>>(finished, "warnings", path))
      row.warnings.push_back(concat("step ", one.step, ": ", one.finding, "; ", one.remedy));
  } catch (const Error& error) {
    throw DamagedResult(error.what());
  }
  row.finished = true;
}

}  // namespace

bool is_finished(const std::string& run_directory) {
  return fs::exists(fs::path(run_directory) / kFinished);
}

void put_result_aside(const std::string& run_directory) {
  const fs::path path = fs::path(run_directory) / kFinished;
  fs::rename(path, path.string() + ".damaged");
}

RunRow read_run(const std::string& run_directory) {
  const fs::path folder(run_directory);
  PENSTOCK_CHECK(fs::is_directory(folder), run_directory, ": is not a directory");
  const std::string metrics_path = (folder / "metrics.jsonl").string();
  Metrics metrics = read_metrics(metrics_path);
  RunRow row{.variant = folder.filename().string()};
  if (row.variant.empty()) row.variant = folder.parent_path().filename().string();
  row.label = row.variant;
  row.steps = metrics.last_step;
  row.total_flops = metrics.total_flops;
  row.tokens_per_second = median(metrics.tokens_per_second);
  row.share_of_peak = median(metrics.share_of_peak);
  row.peak_bytes = metrics.peak_bytes;
  row.seconds = metrics.seconds;
  row.finished_at = date_of(metrics_path);
  row.sparsity_by_layer = layer_sparsity(metrics.sparsity_by_layer);
  if (const RankFigures ranks = metrics.ranks.figures(); !ranks.empty()) row.ranks = ranks;
  if (fs::exists(folder / "config.toml")) {
    row.settings = flatten(read_toml((folder / "config.toml").string()));
    if (const auto it = row.settings.find("train.seed"); it != row.settings.end())
      row.seed = std::atoll(it->second.c_str());
  }
  if (metrics.last_validation.is_object())
    row.validation = read_json<Evaluation>(metrics.last_validation, metrics_path + ": validation");
  if (is_finished(run_directory)) {
    read_result(run_directory, row);
    for (const auto& one : plain_measurements())
      row.measured.update(one->read_folder(run_directory));
  }
  // A method that steers its sparsity logs the state that it steers with. A method with a fixed
  // sparsity does not.
  if (row.target_sparsity && steered(metrics.curves)) {
    row.stages = find_stages(metrics.curves["sparsity"].steps, metrics.curves["sparsity"].values,
                             *row.target_sparsity);
    row.regulariser = stage_regulariser(metrics.curves, row.stages);
  }
  for (auto& [name, curve] : metrics.curves) {
    if (std::ranges::find(kSmoothed, name) != std::end(kSmoothed) || auxiliary_loss(name))
      curve.values = smoothed(curve.values);
    row.curves[name] = thinned(curve);
  }
  return row;
}

}  // namespace penstock::study
