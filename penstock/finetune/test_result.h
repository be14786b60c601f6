// The result of a fine-tuning: its best checkpoint on the test set, at the run's end and later.
// run_record.h has the run's settings.
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

/// finetune.json but for "warnings" and "seconds": tests the best checkpoint of the store on the
/// job's test set.
nlohmann::ordered_json finetune_result(const FinetuneJob& job, CheckpointStore& store,
                                       const std::function<ScoreOptions(std::int64_t k)>& options);

struct FinetuneTestOptions {
  std::string data;             ///< other data of the same classes (their test set, or all where
                                ///< they have none); empty: the run's
  std::vector<std::int64_t> k;  ///< none: as the run's test
};

/// Tests a run's best checkpoint again: what finetune.json says of the test, from the files.
/// Throws Error where the data's classes are not the classifier's, or the run's data changed.
nlohmann::ordered_json finetune_test(const std::string& run_directory,
                                     const FinetuneTestOptions& options);

}  // namespace penstock
