#include "penstock/cli/info/finetuning.h"

#include <fmt/format.h>

#include <filesystem>

#include "penstock/base/joined.h"
#include "penstock/finetune/run_record.h"
#include "penstock/finetune/test_result.h"

namespace penstock {

nlohmann::ordered_json finetuning_json(const std::string& run_directory) {
  const FinetuneRecord record = read_finetune_record(run_directory);
  nlohmann::ordered_json out = {
      {"task", word(record.task)}, {"pretrained_model", record.model}, {"data", record.data}};
  const std::string result = run_directory + "/" + kFinetuneResult;
  if (!std::filesystem::exists(result)) return out;
  const auto finished = nlohmann::ordered_json::parse(real_file_system().read(result));
  for (const char* key : {"best_step", "accuracy", "selection_k", "majority_accuracy", "by_k"})
    out[key] = finished.at(key);
  return out;
}

void print_finetuning(const std::string& run_directory) {
  const auto about = finetuning_json(run_directory);
  fmt::print("fine-tuned    {} on {}, from {}\n", about["task"].get<std::string>(),
             about["data"].get<std::string>(), about["pretrained_model"].get<std::string>());
  if (!about.contains("by_k")) {
    fmt::print("              not finished yet\n");
    return;
  }
  const std::string accuracies = joined(about["by_k"], ", ", [](const auto& point) {
    return fmt::format("{:.2f} %{}", 100 * point["accuracy"].template get<double>(),
                       point["k"].is_null() ? "" : " at k=" + point["k"].dump());
  });
  fmt::print("              accuracy {}; majority class {:.2f} %; step {}\n", accuracies,
             100 * about["majority_accuracy"].get<double>(), about["best_step"].dump());
}

}  // namespace penstock
