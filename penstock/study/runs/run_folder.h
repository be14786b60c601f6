// A study's files in the folder of a run: checkpoints, and JSON objects that save a second
// measurement. run_reader.h reads the trainer's own files.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "penstock/data/corpus/corpus.h"
#include "penstock/study/run_checkpoint.h"
#include "penstock/train/checkpoints/checkpoints.h"

namespace penstock::study {

/// The object, if the file is there. Throws Error naming a damaged one.
std::optional<nlohmann::json> read_kept_object(const std::string& run_directory, const char* name);
/// Writes it, complete or not at all; makes the folder where it is missing.
void write_kept_object(const nlohmann::json& object, const std::string& run_directory,
                       const char* name);

/// Throws Error where none is whole.
CheckpointInfo find_checkpoint(const std::string& run_directory, RunCheckpoint which);

/// The test split, or validation where there is none.
Split measured_split(const Corpus& corpus);

}  // namespace penstock::study
