// What a fine-tuning says of itself: its config.toml read back, the command that repeats it, the
// result.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "penstock/finetune/job.h"
#include "penstock/train/checkpoints/checkpoints.h"

namespace penstock {

/// The value, or null for 0.
nlohmann::ordered_json or_null(std::int64_t value);

/// Whether the folder is a fine-tuning's, by its config.toml.
bool is_finetuning(const std::string& run_directory);

/// config.toml of a run directory. Throws Error where there is none of a fine-tuning.
FinetuneRecord read_finetune_record(const std::string& run_directory);

/// The first setting in which two runs differ, "finetune.lr: 0.1 -> 0.2"; "" for the same run. The
/// places of model and data do not count, their content does.
std::string difference(const FinetuneRecord& before, const FinetuneRecord& now);

/// The command that makes the run again in another folder, its words quoted for a shell.
std::string finetune_command(const FinetuneRecord& record, const std::string& run_directory);

/// finetune.json but for "warnings" and "seconds": tests the best checkpoint of the store on the
/// job's test set.
nlohmann::ordered_json finetune_result(const FinetuneJob& job, CheckpointStore& store,
                                       const std::function<ScoreOptions(std::int64_t k)>& options);

}  // namespace penstock
