// Whether a fine-tuning beats guessing.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace penstock {

/// Half of the 95 % interval of an accuracy p over n texts: 1.96 √(p(1−p)/n).
double accuracy_error(double accuracy, double texts);

/// A sentence where no accuracy of a result (`by_k`, `majority_accuracy`, as finetune.json has
/// them) is above the majority class's by more than its error; "" where one is.
std::string why_nothing_was_learnt(const nlohmann::ordered_json& result);

}  // namespace penstock
