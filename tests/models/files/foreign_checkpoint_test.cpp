// Checkpoints of classes that only other programs write. foreign_checkpoint.py made them with their
// logits.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdlib>

#include "penstock/models/files/model_directory.h"
#include "tests/models/checkpoints.h"

namespace penstock {
namespace {

void expect_logits_of_script(const std::string& type) {
  const testing::TempDirectory temp;
  const std::string directory = temp.path(type);
  const std::string command = std::string("/usr/bin/python3 ") + PENSTOCK_SOURCE_DIR +
                              "/tests/models/files/foreign_checkpoint.py " + type + " " + directory;
  const int status = std::system(command.c_str()) / 256;
  if (status == 77) GTEST_SKIP() << "python3 has no PyTorch";
  ASSERT_EQ(status, 0);
  const SafetensorsFile file(directory + ".expected");
  const at::Tensor tokens = to_tensor(*file.find("tokens")),
                   wanted = to_tensor(*file.find("logits"));
  const torch::NoGradGuard no_grad;
  const auto model = load_model(directory);
  model->to(torch::kDouble);
  const at::Tensor logits = model->logits(model->forward({.tokens = tokens}, {}).hidden);
  EXPECT_LT((logits - wanted).abs().max().item<double>(), 1e-9);
  EXPECT_GT(wanted.abs().max().item<double>(), 1);
}

TEST(ForeignCheckpoint, AQwen3MoeComputesTheScriptsLogits) { expect_logits_of_script("qwen3_moe"); }

TEST(ForeignCheckpoint, ADeepseekComputesTheScriptsLogits) { expect_logits_of_script("deepseek"); }

}  // namespace
}  // namespace penstock
