// Makes a row from a run directory: reads the trainer's config.toml, metrics.jsonl and
// finished.json. Writes nothing.
#pragma once

#include <string>

#include "penstock/base/error.h"
#include "penstock/study/runs/run_row.h"

namespace penstock::study {

/// The error for a finished.json that exists but is not valid.
class DamagedResult : public Error {
 public:
  using Error::Error;
};

/// Whether that run has trained to its end.
bool is_finished(const std::string& run_directory);

/// Renames a damaged finished.json to finished.json.damaged, replacing an earlier one. The run then
/// counts as unfinished, and resuming it writes a new finished.json.
void put_result_aside(const std::string& run_directory);

/// Reads a run. For an unfinished run, figures come from the steps so far. The caller sets variant,
/// label and hash. An incomplete last line of metrics.jsonl is skipped.
/// Throws Error if the directory is not a run or one of its files is damaged; DamagedResult if that
/// file is finished.json.
RunRow read_run(const std::string& run_directory);

}  // namespace penstock::study
