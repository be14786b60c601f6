#include "penstock/finetune/beats_guessing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace penstock {

double accuracy_error(double accuracy, double texts) {
  return 1.96 * std::sqrt(accuracy * (1 - accuracy) / std::max(1.0, texts));
}

std::string why_nothing_was_learnt(const nlohmann::ordered_json& result) {
  const double majority = result.at("majority_accuracy").get<double>();
  double best = 0, error = 0, texts = 0;
  for (const auto& point : result.at("by_k")) {
    const double accuracy = point.at("accuracy").get<double>();
    texts = point.at("texts").get<double>();
    const double its_error = accuracy_error(accuracy, texts);
    if (accuracy - its_error > majority) return "";
    if (accuracy < best) continue;
    best = accuracy;
    error = its_error;
  }
  return fmt::format(
      "nothing that shows was learnt: the highest accuracy, {:.2f} % of {} texts, is not above "
      "guessing the majority class, {:.2f} %, by more than its error of {:.2f} %; try more epochs, "
      "another lr, or more texts",
      100 * best, texts, 100 * majority, 100 * error);
}

}  // namespace penstock
