#include "penstock/study/runs/results_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/base/file_lock.h"
#include "penstock/io/readable_json.h"
#include "penstock/study/json_field.h"
#include "penstock/study/measurement.h"
#include "penstock/study/runs/equal_compute.h"
#include "penstock/study/runs/pair_comparison.h"
#include "penstock/study/runs/run_row_json.h"

namespace penstock::study {
namespace {

using nlohmann::json;

constexpr const char* kStudyFormat = "penstock-study";
constexpr const char* kRowsFormat = "penstock-rows";
constexpr int kVersion = 1;

json parse_file(const std::string& path, const char* format) {
  std::ifstream in(path, std::ios::binary);
  PENSTOCK_CHECK(in, path, ": cannot be opened; check the path");
  json object = json::parse(in, nullptr, false);
  PENSTOCK_CHECK(!object.is_discarded() && object.is_object(), path, ": is not a JSON object");
  PENSTOCK_CHECK(object.value("format", json()) == format, path, ": is not a ", format, " file");
  PENSTOCK_CHECK(object.value("version", json()) == kVersion, path, ": has version ",
                 object.value("version", json()).dump(), "; this program reads version ", kVersion);
  return object;
}

std::vector<RunRow> rows_from_json(const json& object, const std::string& where) {
  PENSTOCK_CHECK(object.contains("rows") && object["rows"].is_array(), where, ": has no rows");
  std::vector<RunRow> rows;
  for (const auto& row : object["rows"]) rows.push_back(row_from_json(row, where));
  return rows;
}

json rows_to_json(std::span<const RunRow> rows) {
  json out = json::array();
  for (const auto& row : rows) out.push_back(to_json(row));
  return out;
}

/// The key that identifies a run between calls, for rows and for diverged runs.
auto key_of(const auto& run) { return std::tie(run.variant, run.seed, run.config_hash); }

std::vector<DivergedRun> diverged_in(const json& object, const std::string& where) {
  return field_of<std::vector<DivergedRun>>(object, "diverged", where);
}

}  // namespace

json to_json(const StudyResults& results) {
  const auto variants = summarize(results.rows);
  json summary = json::array();
  for (const auto& v : variants) {
    summary.push_back({{"variant", v.name}, {"label", v.label}, {"causal", v.causal}});
    for (const auto& figure : summary_figures())
      summary.back()[figure.name] = to_json(v.*figure.spread);
  }
  json out = {{"format", kStudyFormat},
              {"version", kVersion},
              {"name", results.name},
              {"title", results.title},
              {"claim", results.claim},
              {"scale", results.scale},
              {"command", results.command},
              {"planned_runs", results.planned_runs},
              {"compute_ratio", compute_ratio(variants)},
              {"summary", summary},
              {"paired", all_pairs_json(variants)},
              {"rows", rows_to_json(results.rows)}};
  out.update(to_json(results.comparison));
  if (!results.comparison.pairs.empty())
    out["pairs"] = chosen_pairs_json(variants, results.comparison);
  for (const auto& one : plain_measurements())
    out.update(one->summary(results.rows, results.comparison));
  if (!results.diverged.empty()) out["diverged"] = write_json(results.diverged);
  for (const auto& table : results.tables) out["tables"].push_back(to_json(table));
  return out;
}

StudyResults results_from_json(const json& object, const std::string& where) {
  const auto text = [&](const char* name, const char* otherwise = "") {
    return field_of<std::string>(object, name, where, otherwise);
  };
  StudyResults out{.name = text("name", "study"),
                   .title = text("title"),
                   .claim = text("claim"),
                   .scale = text("scale"),
                   .command = text("command"),
                   .planned_runs = field_of<std::int64_t>(object, "planned_runs", where),
                   .comparison = read_json<Comparison>(object, where),
                   .rows = rows_from_json(object, where),
                   .diverged = diverged_in(object, where)};
  for (const auto& table : object.value("tables", json::array()))
    out.tables.push_back(table_from_json(table, where + ": tables"));
  return out;
}

void write_results(const StudyResults& results, const std::string& path) {
  write_file_atomically(real_file_system(), path, readable_text(to_json(results)));
}

StudyResults read_results(const std::string& path) {
  return results_from_json(parse_file(path, kStudyFormat), path);
}

KeptRuns read_kept_runs(const std::string& path) {
  if (!std::filesystem::exists(path)) return {};
  const json object = parse_file(path, kRowsFormat);
  return {.rows = rows_from_json(object, path), .diverged = diverged_in(object, path)};
}

void merge_kept_runs(const std::string& path, const KeptRuns& runs) {
  const FileTurn turn(path);  // other studies may add to the file
  KeptRuns kept = read_kept_runs(path);
  const auto forget = [&](const auto& run) {
    const auto same = [&](const auto& old) { return key_of(old) == key_of(run); };
    std::erase_if(kept.rows, same);
    std::erase_if(kept.diverged, same);
  };
  for (const auto& row : runs.rows) {
    if (!row.finished) continue;
    forget(row);
    kept.rows.push_back(row);
  }
  for (const auto& run : runs.diverged) {
    forget(run);
    kept.diverged.push_back(run);
  }
  const auto by_key = [](const auto& a, const auto& b) { return key_of(a) < key_of(b); };
  std::ranges::sort(kept.rows, by_key);
  std::ranges::sort(kept.diverged, by_key);
  json object = {{"format", kRowsFormat}, {"version", kVersion}, {"rows", rows_to_json(kept.rows)}};
  if (!kept.diverged.empty()) object["diverged"] = write_json(kept.diverged);
  write_file_atomically(real_file_system(), path, readable_text(object));
}

}  // namespace penstock::study
