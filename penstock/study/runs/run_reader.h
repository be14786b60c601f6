// A run directory to a row: reads config.toml, metrics.jsonl and finished.json as the trainer
// leaves them. Writes nothing.
#pragma once

#include <string>

#include "penstock/base/error.h"
#include "penstock/study/runs/run_row.h"

namespace penstock::study {

/// finished.json is there and is none, as a disk or a hand left it.
class DamagedResult : public Error {
 public:
  using Error::Error;
};

/// Whether that run ended as planned.
bool is_finished(const std::string& run_directory);

/// Puts a damaged finished.json aside, as finished.json.damaged, in the place of an earlier one:
/// the run is then not finished, and resuming it writes another.
void put_result_aside(const std::string& run_directory);

/// Reads a run. Works on an unfinished one: figures then come from the steps so far. Variant, label
/// and hash are the caller's. A torn last line of metrics.jsonl is passed over.
/// Throws Error when the directory is no run or a file of it is damaged: DamagedResult where that
/// is finished.json.
RunRow read_run(const std::string& run_directory);

}  // namespace penstock::study
