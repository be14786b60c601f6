// What `penstock info` says of a fine-tuning's folder.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace penstock {

/// What a fine-tuning is of and, once it has finished, what came of it.
nlohmann::ordered_json finetuning_json(const std::string& run_directory);

/// Prints it.
void print_finetuning(const std::string& run_directory);

}  // namespace penstock
