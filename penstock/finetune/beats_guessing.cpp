#include "penstock/finetune/beats_guessing.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "penstock/eval/accuracy_interval.h"

namespace penstock {

std::string why_nothing_was_learnt(const nlohmann::ordered_json& result) {
  const double majority = result.at("majority_accuracy").get<double>();
  double best = 0, texts = 0;
  AccuracyInterval of_best;
  for (const auto& point : result.at("by_k")) {
    const double accuracy = point.at("accuracy").get<double>();
    texts = point.at("texts").get<double>();
    const AccuracyInterval interval = accuracy_interval(accuracy, std::max(1.0, texts));
    if (interval.low > majority) return "";
    if (accuracy < best) continue;
    best = accuracy;
    of_best = interval;
  }
  return fmt::format(
      "nothing that shows was learnt: the highest accuracy, {:.2f} % of {} texts, has a 95 % "
      "interval from {:.2f} to {:.2f} %, which is not above guessing the majority class, {:.2f} %; "
      "try more epochs, another lr, or more texts",
      100 * best, texts, 100 * of_best.low, 100 * of_best.high, 100 * majority);
}

}  // namespace penstock
