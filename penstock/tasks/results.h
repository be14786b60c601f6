// What a task's scores say: the chosen answers, accuracies with their errors, and what guessing
// would give.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/tasks/items.h"
#include "penstock/tasks/scoring.h"

namespace penstock::tasks {

struct ItemResult {
  int chosen = -1;  ///< the likeliest choice; -1 for tasks that choose nothing
  int gold = -1;
  bool right = false;        ///< acc
  bool right_norm = false;   ///< by likelihood per character
  bool right_bytes = false;  ///< by likelihood per byte
  std::string generated = {};
};

/// A share of n items, each right or wrong.
struct Accuracy {
  double mean = 0;
  /// Standard error by the sample's deviation, as lm-eval has it; nothing for a single item.
  std::optional<double> stderr_of_mean;
  double low = 0, high = 0;  ///< 95 % interval (Wilson)
};
Accuracy accuracy_of(std::size_t right, std::size_t n);

struct TaskResult {
  std::string name, version, note;
  TaskProtocol protocol = TaskProtocol::kLmEval;
  Shots shots = {};
  std::size_t n = 0;
  std::size_t left_out = 0;  ///< rows that are no items of the task
  Accuracy acc;              ///< of generated answers: exact_match
  std::optional<Accuracy> acc_norm, acc_bytes;
  std::optional<double> perplexity;
  bool generated = false;       ///< the model says its answers; acc is lm-eval's exact_match
  std::optional<double> guess;  ///< what choosing at random would give
  std::vector<ItemResult> items;

  /// Whether guessing lies within the 95 % interval of the accuracy.
  bool is_guessing() const;
};

/// @param scores  of each item's requests;  @param requests  their tokens
TaskResult summarize(const Task& task, const Items& items,
                     const std::vector<std::vector<TokenRequest>>& requests,
                     const std::vector<std::vector<RequestScore>>& scores);

/// The same of generated answers.
TaskResult summarize(const Task& task, const Items& items, std::vector<std::string> generated);

/// The score by which choices are compared: the sum, or the sum over a number of tokens.
double choice_value(Score rule, const TokenRequest& request, const RequestScore& score);

}  // namespace penstock::tasks
