// The record of a fine-tuning: its config.toml read back, and the command that repeats it.
// test_result.h has its result.
#pragma once

#include <string>

#include "penstock/finetune/job.h"

namespace penstock {

/// Whether the folder is a fine-tuning's, by its config.toml.
bool is_finetuning(const std::string& run_directory);

/// config.toml of a run directory. Throws Error where there is none of a fine-tuning.
FinetuneRecord read_finetune_record(const std::string& run_directory);

/// The first setting in which two runs differ, "finetune.lr: 0.1 -> 0.2"; "" for the same run. The
/// places of model and data do not count, their content does.
std::string difference(const FinetuneRecord& before, const FinetuneRecord& now);

/// The command that makes the run again in another folder, its words quoted for a shell.
std::string finetune_command(const FinetuneRecord& record, const std::string& run_directory);

}  // namespace penstock
