// penstock eval MODEL --tasks A,B: zero-shot tasks by a harness's protocol.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/tasks/task.h"

namespace penstock {

struct EvalTasksOptions {
  std::string model, compare, tokenizer, data, items;
  tasks::TaskProtocol protocol = tasks::TaskProtocol::kLmEval;
  std::string requests;              ///< a file, or - for standard input, in place of tasks
  std::vector<std::string> tasks;    ///< names and groups
  std::vector<std::string> files;    ///< files of the user's own tasks
  std::int64_t limit = 0;            ///< number of items of each task, from its start; 0: all
  std::int64_t fewshot = 0;          ///< examples before each item
  std::int64_t fewshot_seed = 1234;  ///< the seed that draws the examples
  std::int64_t sequence_length = 0;  ///< tokens that the model reads at once; 0: its context
  std::int64_t k = 0;                ///< experts per token; 0: the model's own
  bool f64 = false;                  ///< compute in f64, for any stored type
  bool json = false, fold = false;
};

/// Prints each task's accuracy; with `compare`, the paired differences of a second model too.
void run_eval_tasks(const EvalTasksOptions& options);

/// Prints the tasks and groups of every protocol.
void list_tasks(bool json);

}  // namespace penstock
