// Compares two models on the same items: the paired difference of their accuracies.
#pragma once

#include "penstock/tasks/results.h"

namespace penstock::tasks {

/// The accuracy of model B minus that of model A.
struct PairedDifference {
  std::size_t n = 0;
  std::size_t only_a = 0, only_b = 0;  ///< items that only this model answers correctly
  double difference = 0;               ///< of the accuracies
  double low = 0, high = 0;            ///< 95 % interval, from the items' paired differences
  double p = 1;                        ///< McNemar's exact test, two-sided
};

/// Throws Error if the results have different tasks or numbers of items.
PairedDifference compare(const TaskResult& a, const TaskResult& b);

/// {"difference", "interval", "p", "only_a", "only_b"}
nlohmann::ordered_json to_json(const PairedDifference& difference);

}  // namespace penstock::tasks
