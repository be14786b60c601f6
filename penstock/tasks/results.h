// Computes a task's results from its scores: the chosen answers, accuracies with their errors, and
// the accuracy of guessing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/tasks/items.h"
#include "penstock/tasks/scoring.h"

namespace penstock::tasks {

struct ItemResult {
  int chosen = -1;  ///< the likeliest choice; -1 for tasks without choices
  int gold = -1;
  bool right = false;        ///< for acc
  bool right_norm = false;   ///< for acc_norm, by log-likelihood per character
  bool right_bytes = false;  ///< for acc_bytes, by log-likelihood per byte
  std::string generated = {};
};

/// A share of n items, each right or wrong.
struct Accuracy {
  double mean = 0;
  /// Standard error from the sample standard deviation, as lm-eval computes it; nothing for a
  /// single item.
  std::optional<double> stderr_of_mean;
  double low = 0, high = 0;  ///< 95 % interval (Wilson)
};
Accuracy accuracy_of(std::size_t right, std::size_t n);

struct TaskResult {
  std::string name, version, note;
  TaskProtocol protocol = TaskProtocol::kLmEval;
  Shots shots = {};
  std::size_t n = 0;
  std::size_t left_out = 0;  ///< rows that the task's `where` leaves out
  Accuracy acc;              ///< exact_match for generated answers
  std::optional<Accuracy> acc_norm, acc_bytes;
  std::optional<double> perplexity;
  bool generated = false;       ///< the model generates answers; acc is lm-eval's exact_match
  std::optional<double> guess;  ///< accuracy of choosing at random
  std::vector<ItemResult> items;

  /// Whether the accuracy of guessing lies within the 95 % interval.
  bool is_guessing() const;
};

/// The result of a task without generated answers.
/// @param scores  of each item's requests;  @param requests  their tokens
TaskResult summarize(const Task& task, const Items& items,
                     const std::vector<std::vector<TokenRequest>>& requests,
                     const std::vector<std::vector<RequestScore>>& scores);

/// The same for generated answers.
TaskResult summarize(const Task& task, const Items& items, std::vector<std::string> generated);

/// The value by which choices are compared: the log-likelihood, or that divided by a number of
/// tokens.
double choice_value(Score rule, const TokenRequest& request, const RequestScore& score);

}  // namespace penstock::tasks
