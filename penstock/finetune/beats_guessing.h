// Tests whether a fine-tuning's accuracy is above that of guessing the majority class.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace penstock {

/// Half of the 95 % interval of an accuracy p over n texts: 1.96 √(p(1−p)/n).
double accuracy_error(double accuracy, double texts);

/// A sentence if no accuracy in a result (`by_k` and `majority_accuracy` of finetune.json) is above
/// the majority class's by more than its error; "" otherwise.
std::string why_nothing_was_learnt(const nlohmann::ordered_json& result);

}  // namespace penstock
