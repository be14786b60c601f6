// A fine-tuning that a study does with each of its finished runs, and what came of it.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/config_node.h"

namespace penstock::study {

/// A [finetune.NAME] table.
struct FinetuneTask {
  std::string name;
  std::string label;
  std::string data;                         ///< as `penstock finetune --data`; empty: left out
  std::string format = "auto";              ///< as its --task
  ConfigNode settings;                      ///< keys of `penstock finetune --set`
  std::map<std::string, double> published;  ///< settings of the paper, by key
};

/// Reads [finetune]'s tables; `over` lays a scale's tables of the same names over them, and each of
/// `overrides`, "finetune.NAME.data=DIR" or "finetune.NAME.set.KEY=VALUE", the last word. The order
/// is the file's. Throws Error with file and line for unknown keys and impossible settings.
std::vector<FinetuneTask> read_finetune_tasks(const ConfigNode& tables, const ConfigNode* over,
                                              const std::vector<std::string>& overrides);

/// The settings with that seed, where they name none.
ConfigNode with_seed(const FinetuneTask& task, std::int64_t seed);

/// 16 hex digits over settings, format and checkpoint; the data are compared by what the run says.
std::string task_hash(const FinetuneTask& task, std::int64_t seed, const std::string& checkpoint);

/// The test of one fine-tuned run.
struct Finetuned {
  struct Point {
    std::int64_t k = 0;  ///< 0: the model has none to set
    double accuracy = 0, macro_f1 = 0;
  };
  std::string task, hash;
  double texts = 0, majority = 0;  ///< test texts; accuracy of the training set's commonest class
  std::vector<Point> points;

  /// The point at that k, or the one that holds for all; null where it was not measured.
  const Point* at(std::int64_t k) const;
};

nlohmann::json to_json(const Finetuned& finetuned);
/// What to_json wrote. Throws Error naming `where`.
Finetuned finetuned_from_json(const nlohmann::json& object, const std::string& where);
/// From finetune.json in a fine-tuning's run directory; nothing while that is not finished.
std::optional<Finetuned> read_finetuned(const std::string& run_directory);

}  // namespace penstock::study
