// The two files that a study's results are kept in: results.json, which is shown, and what is kept
// between sittings.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "penstock/study/runs/results.h"

namespace penstock::study {

/// The layout of results.json: format and version, the fields, {"summary", "paired",
/// "compute_ratio"} and what measurements add.
nlohmann::json to_json(const StudyResults& results);
/// Reads what to_json wrote (summary and pairs are worked out again). Throws Error naming `where`.
StudyResults results_from_json(const nlohmann::json& object, const std::string& where);

/// Writes results.json, complete or not at all.
void write_results(const StudyResults& results, const std::string& path);
/// What write_results wrote. Throws Error naming the path where it is missing or something else.
StudyResults read_results(const std::string& path);

/// What is kept between sittings, by variant, seed and config hash.
struct KeptRuns {
  std::vector<RunRow> rows;
  std::vector<DivergedRun> diverged;
};
/// Reads the file; a missing file holds none.
KeptRuns read_kept_runs(const std::string& path);
/// Adds finished rows and diverged runs to the file, replacing equal keys; others stay. Written
/// aside, renamed.
void merge_kept_runs(const std::string& path, const KeptRuns& runs);

}  // namespace penstock::study
