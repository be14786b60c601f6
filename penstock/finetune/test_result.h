// Makes the result of a fine-tuning by scoring its best checkpoint on the test set, at the run's
// end or later. run_record.h has the run's settings.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "penstock/finetune/job.h"
#include "penstock/train/checkpoints/checkpoints.h"

namespace penstock {

inline constexpr const char* kFinetuneResult = "finetune.json";

/// The value, or null for 0.
nlohmann::ordered_json or_null(std::int64_t value);

/// The content of finetune.json without "warnings" and "seconds". Tests the store's best checkpoint
/// on the job's test set.
nlohmann::ordered_json finetune_result(const FinetuneJob& job, CheckpointStore& store,
                                       const std::function<ScoreOptions(std::int64_t k)>& options);

struct FinetuneTestOptions {
  /// Other data of the same classes (its test set, or all texts if it has none). Empty: the
  /// run's data.
  std::string data;
  std::vector<std::int64_t> k;  ///< empty: the run's values
};

/// Tests a run's best checkpoint again from its files, and returns the test's part of
/// finetune.json. Throws Error if the data's classes are not the classifier's, or if the run's data
/// has changed.
nlohmann::ordered_json finetune_test(const std::string& run_directory,
                                     const FinetuneTestOptions& options);

}  // namespace penstock
