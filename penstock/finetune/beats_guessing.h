// Tests whether a fine-tuning's accuracy is above that of guessing the majority class.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace penstock {

/// A sentence if no accuracy in a result (`by_k` and `majority_accuracy` of finetune.json) has an
/// interval (eval/accuracy_interval.h) above the accuracy of the majority class; "" otherwise.
std::string why_nothing_was_learnt(const nlohmann::ordered_json& result);

}  // namespace penstock
