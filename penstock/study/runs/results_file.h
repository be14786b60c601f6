// The two files that hold a study's results: results.json for display, and the file of rows kept
// between invocations.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "penstock/study/runs/results.h"

namespace penstock::study {

/// The layout of results.json: format and version, the fields, {"summary", "paired",
/// "compute_ratio"}, the chosen pairs with their differences, and the measurements' objects.
nlohmann::json to_json(const StudyResults& results);
/// Reads what to_json wrote (summary and pairs are recomputed). Throws Error naming `where`.
StudyResults results_from_json(const nlohmann::json& object, const std::string& where);

/// Writes results.json, complete or not at all.
void write_results(const StudyResults& results, const std::string& path);
/// Reads what write_results wrote. Throws Error naming the path if the file is missing or is not a
/// results file.
StudyResults read_results(const std::string& path);

/// The runs kept between invocations, by variant, seed and config hash.
struct KeptRuns {
  std::vector<RunRow> rows;
  std::vector<DivergedRun> diverged;
};
/// Reads the file; none if it is missing.
KeptRuns read_kept_runs(const std::string& path);
/// Adds finished rows and diverged runs to the file and replaces entries with equal keys. Writes a
/// temporary file and renames it. Several processes may merge into one file at the same time.
void merge_kept_runs(const std::string& path, const KeptRuns& runs);

}  // namespace penstock::study
