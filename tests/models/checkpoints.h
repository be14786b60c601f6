// Public checkpoints for the tests that read them: files in shared/data beside the checkout, where
// that folder exists, and folders with small random models.
#pragma once

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "penstock/base/atomic_files.h"
#include "penstock/io/config_json.h"
#include "penstock/models/formats/torch_safetensors.h"
#include "penstock/models/language_model.h"
#include "tests/base/error_of.h"
#include "tests/base/temp_directory.h"

namespace penstock::testing {

/// The path of a public checkpoint's file. Empty if the file does not exist.
inline std::string public_checkpoint(const std::string& name) {
  const auto found = std::filesystem::path(PENSTOCK_SOURCE_DIR).parent_path() / "shared" / "data" /
                     "checkpoints" / name;
  return std::filesystem::exists(found) ? found.string() : "";
}

/// A folder with the file names of a model directory. It is deleted at the test's end.
class CheckpointFolder {
 public:
  CheckpointFolder() = default;
  /// Copies two files from elsewhere and gives the copies the names of a model directory.
  CheckpointFolder(const std::string& config, const std::string& weights) {
    std::filesystem::copy_file(config, folder_.path() / "config.json");
    std::filesystem::copy_file(weights, folder_.path() / "model.safetensors");
  }
  CheckpointFolder(const nlohmann::json& config, const TensorMap& weights) {
    write_config(config);
    write_weights(weights);
  }
  void write_config(const nlohmann::json& config) const {
    write_file_atomically(real_file_system(), folder_.path() / "config.json", config.dump());
  }
  void write_weights(const TensorMap& weights, const char* name = "model.safetensors") const {
    save_tensors(real_file_system(), folder_.path() / name, weights);
  }
  std::string path() const { return folder_.path().string(); }
  std::string operator/(const std::string& name) const { return folder_.path(name); }

 private:
  TempDirectory folder_;
};

/// Logits [T, V] of one row of ids, in the model's type.
inline at::Tensor logits_of(LanguageModel& model, const std::vector<std::int64_t>& ids) {
  const torch::NoGradGuard no_grad;
  const at::Tensor tokens = torch::tensor(ids, torch::kInt64).unsqueeze(0);
  return model.logits(model.forward({.tokens = tokens}, {}).hidden);
}

/// The numbers of a JSON array, nested or flat, as a tensor of the given shape.
inline at::Tensor json_tensor(const nlohmann::json& values, std::vector<std::int64_t> shape) {
  std::vector<double> flat;
  const std::function<void(const nlohmann::json&)> add = [&](const nlohmann::json& value) {
    if (!value.is_array()) return flat.push_back(value.get<double>());
    for (const auto& item : value) add(item);
  };
  add(values);
  return torch::tensor(flat, torch::kDouble).view(shape);
}

}  // namespace penstock::testing
