// What a fine-tuning says of itself: its config.toml read back, a line of metrics.jsonl, the
// result.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "penstock/finetune/finetuner.h"
#include "penstock/finetune/job.h"
#include "penstock/train/checkpoints.h"

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

/// One line of metrics.jsonl, without selection and elapsed seconds.
nlohmann::ordered_json finetune_metrics_line(std::int64_t step, const FinetuneStep& outcome);

/// finetune.json: tests the best checkpoint of the store on the job's test set.
nlohmann::ordered_json finetune_result(const FinetuneJob& job, CheckpointStore& store,
                                       const std::function<ScoreOptions(std::int64_t k)>& options,
                                       double seconds, const std::string& run_directory);

}  // namespace penstock
