// A run's result of a zero-shot task, as results.json and the run's folder keep it.
// measurements/tasks.cpp makes it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "penstock/study/json_field.h"
#include "penstock/study/run_checkpoint.h"
#include "penstock/tasks/task.h"

namespace penstock::study {

struct AnsweredTask {
  std::string task, version;
  std::optional<tasks::TaskProtocol> protocol;
  RunCheckpoint checkpoint = RunCheckpoint::final;
  std::string data;  // checksum of the task's data files
  std::int64_t limit = 0, fewshot = 0, fewshot_seed = 1234, n = 0;
  double acc = 0;
  std::optional<double> acc_low, acc_high;
  std::optional<double> acc_norm, perplexity, guess;
  bool is_guessing = false;
  std::string refused;  // why there is no result; "" if there is one
  template <class V>
  void visit(V& v) {
    v("task", task, Presence::required);
    v("protocol", protocol);
    v("version", version);
    v("checkpoint", checkpoint);
    v("data", data, Presence::if_filled);
    v("limit", limit);
    v("fewshot", fewshot);
    v("fewshot_seed", fewshot_seed);
    v("n", n);
    v("acc", acc, Presence::required);
    v("acc_low", acc_low);
    v("acc_high", acc_high);
    v("acc_norm", acc_norm);
    v("perplexity", perplexity);
    v("guess", guess);
    v("is_guessing", is_guessing);
    v("refused", refused, Presence::if_filled);
  }
  std::string named() const { return tasks::versioned_name(task, version); }
};

/// The results in a row's object, or in that of a run's folder. Throws Error naming `where`.
inline std::vector<AnsweredTask> answered_tasks(const nlohmann::json& row,
                                                const std::string& where) {
  return field_of<std::vector<AnsweredTask>>(row, "tasks", where);
}

}  // namespace penstock::study
