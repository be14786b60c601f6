// A study's files in the folder of a run: checkpoints, and JSON objects with results, so that
// nothing is measured twice. run_reader.h reads the trainer's own files.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "penstock/data/corpus/corpus.h"
#include "penstock/study/run_checkpoint.h"
#include "penstock/train/checkpoints/checkpoints.h"

namespace penstock::study {

/// Reads the object if the file exists. Throws Error naming a damaged file.
std::optional<nlohmann::json> read_kept_object(const std::string& run_directory, const char* name);
/// Writes the object atomically; makes the folder if it is missing.
void write_kept_object(const nlohmann::json& object, const std::string& run_directory,
                       const char* name);

/// Throws Error if no checkpoint is complete.
CheckpointInfo find_checkpoint(const std::string& run_directory, RunCheckpoint which);

/// The test split, or the validation split if there is no test split.
Split measured_split(const Corpus& corpus);

}  // namespace penstock::study
