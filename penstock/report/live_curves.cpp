#include "penstock/report/live_curves.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/base/json_text.h"
#include "penstock/study/runs/run_reader.h"

namespace penstock::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// The runs' directories; the directory itself if it is a run.
std::vector<fs::path> run_directories(const fs::path& directory) {
  if (fs::exists(directory / "metrics.jsonl")) return {directory};
  std::vector<fs::path> out;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(directory / "runs", none))
    if (fs::exists(entry.path() / "metrics.jsonl")) out.push_back(entry.path());
  std::ranges::sort(out);
  return out;
}

double planned_steps(const study::RunRow& row) {
  const auto found = row.settings.find("train.steps");
  double out = 0;
  if (found != row.settings.end())
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), out);
  return out;
}

/// The directory's name, without the hash that a study adds to distinguish recipes.
std::string name_of(const fs::path& directory) {
  const std::string name = directory.filename().string();
  return name.find("-seed-") == std::string::npos ? name : name.substr(0, name.rfind('-'));
}

Json run_json(const fs::path& directory) {
  const study::RunRow row = study::read_run(directory.string());
  Json out{{"name", name_of(directory)}, {"seed", row.seed}};
  out["finished"] = study::is_finished(directory.string());
  out["steps"] = row.steps;
  out["planned_steps"] = planned_steps(row);
  out["curves"] = Json::object();
  for (const auto& [name, curve] : row.curves)
    if (!curve.steps.empty())
      out["curves"][name] = {{"steps", curve.steps}, {"values", curve.values}};
  return out;
}

}  // namespace

std::string LiveCurves::json() {
  const std::scoped_lock lock(mutex_);
  fs::path directory = fs::absolute(directory_).lexically_normal();
  if (!directory.has_filename()) directory = directory.parent_path();
  const bool of_study = !fs::exists(directory / "metrics.jsonl");
  Json out{{"title", directory.filename().string()}};
  const bool results = fs::exists(directory / "results.json");
  bool finished = true;
  Json runs = Json::array();
  for (const fs::path& run : run_directories(directory)) {
    const auto known = finished_.find(run.string());
    if (known != finished_.end()) {
      runs.push_back(Json::parse(known->second));
      continue;
    }
    try {
      Json one = run_json(run);
      if (one["finished"])
        finished_[run.string()] = json_text(one);
      else
        finished = false;
      runs.push_back(std::move(one));
    } catch (const Error&) {  // the run has just begun
      finished = false;
    }
  }
  out["finished"] = finished && (!of_study || results);
  out["report"] = of_study ? results : !runs.empty();
  out["runs"] = std::move(runs);
  return json_text(out);
}

}  // namespace penstock::report
