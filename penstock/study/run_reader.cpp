// Run directories, as the trainer leaves them.
#include "penstock/study/run_reader.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "penstock/io/toml.h"
#include "penstock/routers/logged_states.h"
#include "penstock/study/config_hash.h"
#include "penstock/study/json_field.h"
#include "penstock/study/smoothed.h"
#include "penstock/study/stages.h"

namespace penstock::study {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kCurves[] = {"loss",      "sparsity",          "active_experts",
                                   "grad_norm", "tokens_per_second", "learning_rate"};
// Those that are noise from step to step.
constexpr const char* kSmoothed[] = {"loss", "tokens_per_second", "imbalance"};
constexpr std::size_t kPointsPerSpacing = 80;

struct Metrics {
  std::map<std::string, Curve> curves;
  std::vector<double> tokens_per_second, share_of_peak;
  double total_flops = 0, peak_bytes = 0, seconds = 0;
  std::int64_t last_step = 0;
  json last_validation;
};

json parse_object(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  PENSTOCK_CHECK(in, path, ": cannot be opened");
  json object = json::parse(in, nullptr, false);
  PENSTOCK_CHECK(
      !object.is_discarded() && object.is_object(), path,
      ": is not a JSON object, so it was damaged; delete it and resume the run, which then "
      "measures again and writes it anew");
  return object;
}

void add_point(Curve& curve, double step, double value) {
  // A resumed run repeats no step; a line that does is left out rather than drawn backwards.
  if (!curve.steps.empty() && step <= curve.steps.back()) return;
  curve.steps.push_back(step);
  curve.values.push_back(value);
}

void add_line(Metrics& metrics, const json& line, const std::string& where) {
  const double step = required_number(line, "step", where);
  PENSTOCK_CHECK(step >= 0 && step < 1e15, where, ": step is out of range");
  metrics.last_step = std::max(metrics.last_step, static_cast<std::int64_t>(step));
  const auto add = [&](const std::string& name, double value) {
    if (std::isfinite(value)) add_point(metrics.curves[name], step, value);
  };
  for (const char* name : kCurves) add(name, number_or(line, name, NAN, where));
  for (const LoggedState& state : logged_states())
    add(state.name, number_or(line, state.name.c_str(), NAN, where));
  add("consistency", number_or(line, "consistency", NAN, where));
  if (const auto losses = line.find("auxiliary_losses"); losses != line.end()) {
    PENSTOCK_CHECK(losses->is_object(), where, ": 'auxiliary_losses' is not an object");
    for (const auto& [part, value] : losses->items())
      add(kAuxiliaryLosses + part, number_or(*losses, part.c_str(), NAN, where));
  }
  if (const auto load = line.find("load"); load != line.end())
    add("imbalance", imbalance(matrix(*load, where)));
  if (const double value = number_or(line, "tokens_per_second", 0, where); value > 0)
    metrics.tokens_per_second.push_back(value);
  if (const double value = number_or(line, "share_of_peak", 0, where); value > 0)
    metrics.share_of_peak.push_back(value);
  metrics.total_flops += number_or(line, "flops", 0, where);
  metrics.peak_bytes = std::max(metrics.peak_bytes, number_or(line, "peak_bytes", 0, where));
  metrics.seconds = std::max(metrics.seconds, number_or(line, "seconds", 0, where));
  add("flops", metrics.total_flops);
  add("seconds", metrics.seconds);
  if (const auto it = line.find("validation"); it != line.end() && it->is_object()) {
    metrics.last_validation = *it;
    add_point(metrics.curves["validation_loss"], step, required_number(*it, "loss", where));
  }
}

Metrics read_metrics(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  PENSTOCK_CHECK(in, path, ": cannot be opened; is this the directory of a run?");
  Metrics metrics;
  std::string text;
  for (int number = 1; std::getline(in, text); ++number) {
    if (text.empty()) continue;
    const json line = json::parse(text, nullptr, false);
    const bool whole = !line.is_discarded() && line.is_object();
    if (!whole && in.peek() == EOF) break;  // the write that a kill cut short
    const std::string where = concat(path, ":", number);
    PENSTOCK_CHECK(whole, where, ": is not a JSON object");
    add_line(metrics, line, where);
  }
  return metrics;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Points spaced evenly both in the step and in its logarithm, so that either axis looks smooth.
Curve thin(const Curve& curve) {
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

/// "step 3: what was seen; what to do about it".
std::vector<std::string> warnings_of(const json& finished, const std::string& path) {
  std::vector<std::string> out;
  const auto list = finished.find("warnings");
  if (list == finished.end()) return out;
  PENSTOCK_CHECK(list->is_array(), path, ": 'warnings' is not a list");
  for (const auto& warning : *list) {
    PENSTOCK_CHECK(warning.is_object(), path, ": a warning is not an object");
    out.push_back(concat("step ", static_cast<std::int64_t>(required_number(warning, "step", path)),
                         ": ", string_or(warning, "finding", "", path), "; ",
                         string_or(warning, "remedy", "", path)));
  }
  return out;
}

void take_finished(RunRow& row, const json& finished, const std::string& path) {
  row.finished = true;
  row.steps = static_cast<std::int64_t>(
      std::clamp(number_or(finished, "steps", static_cast<double>(row.steps), path), 0.0, 1e15));
  row.total_parameters = number_or(finished, "total_parameters", 0, path);
  row.active_parameters = number_or(finished, "active_parameters", 0, path);
  row.flops_per_token = number_or(finished, "flops_per_token", 0, path);
  row.tokens_per_second = number_or(finished, "tokens_per_second", row.tokens_per_second, path);
  row.share_of_peak = number_or(finished, "share_of_peak", row.share_of_peak, path);
  row.peak_bytes = number_or(finished, "peak_bytes", row.peak_bytes, path);
  row.seconds = number_or(finished, "seconds", row.seconds, path);
  row.peak_flops = number_or(finished, "peak_flops", 0, path);
  row.machine = string_or(finished, "machine", "", path);
  row.causal = finished.value("causal", json(true)) != json(false);
  if (const double target = number_or(finished, "target_sparsity", NAN, path);
      std::isfinite(target))
    row.target_sparsity = target;
  row.warnings = warnings_of(finished, path);
  if (finished.contains("validation") && finished["validation"].is_object())
    row.validation = evaluation_from_json(finished["validation"], path + ": validation");
  if (finished.contains("test") && finished["test"].is_object())
    row.test = evaluation_from_json(finished["test"], path + ": test");
}

}  // namespace

bool is_finished(const std::string& run_directory) {
  return fs::exists(fs::path(run_directory) / "finished.json");
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
  if (fs::exists(folder / "config.toml")) {
    const ConfigNode config = read_toml((folder / "config.toml").string());
    row.settings = flatten(config);
    if (const auto it = row.settings.find("train.seed"); it != row.settings.end())
      row.seed = std::atoll(it->second.c_str());
  }
  if (metrics.last_validation.is_object())
    row.validation = evaluation_from_json(metrics.last_validation, metrics_path + ": validation");
  if (is_finished(run_directory)) {
    const std::string path = (folder / "finished.json").string();
    take_finished(row, parse_object(path), path);
    row.by_k = read_measured_k(run_directory);
    row.by_k_folded = read_measured_k(run_directory, /*folded=*/true);
    row.routers = read_router_report(run_directory);
  }
  // What it steers by tells a method that steers its sparsity from one whose sparsity is fixed.
  if (row.target_sparsity && steered(metrics.curves))
    row.stages = find_stages(metrics.curves["sparsity"].steps, metrics.curves["sparsity"].values,
                             *row.target_sparsity);
  for (auto& [name, curve] : metrics.curves) {
    if (std::ranges::find(kSmoothed, name) != std::end(kSmoothed) || auxiliary_loss(name))
      curve.values = smoothed(curve.values);
    row.curves[name] = thin(curve);
  }
  return row;
}

}  // namespace penstock::study
