// The output of `penstock info` for a fine-tuning's folder.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace penstock {

/// The inputs of a fine-tuning and, once it has finished, its results.
nlohmann::ordered_json finetuning_json(const std::string& run_directory);

/// Prints the inputs and results as text.
void print_finetuning(const std::string& run_directory);

}  // namespace penstock
