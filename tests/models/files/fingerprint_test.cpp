// Fingerprints: the same model in another place has the same fingerprint, and any other model has
// another.
#include "penstock/models/files/fingerprint.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/base/atomic_files.h"
#include "penstock/models/decoder.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/formats/torch_safetensors.h"
#include "tests/base/temp_directory.h"

namespace penstock {
namespace {

ModelConfig config_of_context(std::int64_t context) {
  ModelConfig config{.vocab = 11, .d_model = 8, .layers = 1, .heads = 2, .d_ffn = 12};
  config.context = context;
  return config.resolved();
}

std::string fingerprint_of(const ModelConfig& config, const TensorMap& tensors) {
  const testing::TempDirectory folder;
  const std::string path = folder.path().string();
  write_file_atomically(real_file_system(), path + "/config.json",
                        config_json_text(config.resolved()));
  save_tensors(real_file_system(), path + "/model.safetensors", tensors);
  return fingerprint(*open_model_source(path));
}

TEST(Fingerprint, IsTheModelsOwn) {
  const torch::NoGradGuard no_grad;
  Decoder model(config_of_context(16));
  model.initialize(InitialDraws(1));
  TensorMap tensors = file_tensors(model);
  const std::string known = fingerprint_of(config_of_context(16), tensors);
  EXPECT_EQ(known.size(), 16u);
  EXPECT_EQ(fingerprint_of(config_of_context(16), tensors), known);
  EXPECT_NE(fingerprint_of(config_of_context(17), tensors), known);
  for (auto& [name, tensor] : tensors) {
    const at::Tensor before = tensor;
    tensor = tensor.clone();
    tensor.view({-1})[0] += 1e-3;
    EXPECT_NE(fingerprint_of(config_of_context(16), tensors), known) << name;
    tensor = before;
  }
}

}  // namespace
}  // namespace penstock
