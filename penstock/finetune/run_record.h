// Reads the record of a fine-tuning from its config.toml, and makes the command that repeats it.
// test_result.h has its result.
#pragma once

#include <string>

#include "penstock/finetune/job.h"

namespace penstock {

/// Whether the folder's config.toml is that of a fine-tuning.
bool is_finetuning(const std::string& run_directory);

/// Reads config.toml of a run directory. Throws Error if it is missing or not that of a
/// fine-tuning.
FinetuneRecord read_finetune_record(const std::string& run_directory);

/// The first setting in which two runs differ, "finetune.lr: 0.1 -> 0.2"; "" for the same run. The
/// contents of model and data count, but not their paths.
std::string difference(const FinetuneRecord& before, const FinetuneRecord& now);

/// The command that repeats the run in another folder, quoted for a shell.
std::string finetune_command(const FinetuneRecord& record, const std::string& run_directory);

}  // namespace penstock
