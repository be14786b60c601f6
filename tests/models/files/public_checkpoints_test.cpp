// Tiny checkpoints with logits that transformers computed. The tests are skipped without
// shared/data.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/layers/moe.h"
#include "penstock/models/files/model_directory.h"
#include "tests/models/checkpoints.h"

namespace penstock {
namespace {

using testing::json_tensor;
using testing::logits_of;
using testing::public_checkpoint;

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(torch::kDouble) - b.to(torch::kDouble)).abs().max().item<double>();
}

/// Compares the logits of several sequences. The references are in f32, and some were rounded from
/// f64.
void expect_sequences(const std::string& name) {
  const std::string stem = public_checkpoint("hf_tiny/" + name + ".safetensors");
  if (stem.empty()) GTEST_SKIP() << "missing data: no public checkpoints beside the checkout";
  const std::string base = stem.substr(0, stem.size() - std::string(".safetensors").size());
  const testing::CheckpointFolder folder(base + "_config.json", stem);
  const auto model = load_model(folder.path());
  const nlohmann::json reference = read_json(base + "_logits.json");
  for (const torch::Dtype type : {torch::kFloat, torch::kDouble}) {
    model->to(type);
    for (std::size_t i = 0; i < reference["sequences"].size(); ++i) {
      const auto ids = reference["sequences"][i].get<std::vector<std::int64_t>>();
      const at::Tensor logits = logits_of(*model, ids);
      EXPECT_LT(
          largest_difference(logits, json_tensor(reference["logits"][i], logits.sizes().vec())),
          1e-5)
          << name << ", sequence " << i;
    }
  }
}

TEST(PublicCheckpoints, LlamaGivesItsLogits) { expect_sequences("tiny_llama"); }
TEST(PublicCheckpoints, Qwen2GivesItsLogits) { expect_sequences("tiny_qwen2"); }
TEST(PublicCheckpoints, MixtralGivesItsLogits) { expect_sequences("tiny_mixtral"); }

/// Compares one sequence of a fixture with references in f64.
void expect_fixture(const std::string& config, const std::string& weights,
                    const std::string& reference_name) {
  const std::string folder_name = "moe_fixtures/";
  const std::string file = public_checkpoint(folder_name + weights);
  if (file.empty()) GTEST_SKIP() << "missing data: no public checkpoints beside the checkout";
  const testing::CheckpointFolder folder(public_checkpoint(folder_name + config), file);
  const auto model = load_model(folder.path());
  const nlohmann::json reference = read_json(public_checkpoint(folder_name + reference_name));
  const auto ids = reference["input_ids"].get<std::vector<std::int64_t>>();
  const at::Tensor expected =
      json_tensor(reference["hf_logits"], {static_cast<std::int64_t>(ids.size()), 48});
  EXPECT_LT(largest_difference(logits_of(*model, ids), expected), 1e-5);
  model->to(torch::kDouble);
  EXPECT_LT(largest_difference(logits_of(*model, ids), expected), 1e-5);
}

TEST(PublicCheckpoints, PackedMixtralGivesItsLogits) {
  expect_fixture("mixtral_tiny_config.json", "full_mixtral.safetensors", "full_mixtral.json");
}

TEST(PublicCheckpoints, ClassicMixtralGivesItsLogits) {
  expect_fixture("mixtral_tiny_config.json", "mixtral_classic.safetensors", "full_mixtral.json");
}

TEST(PublicCheckpoints, Qwen2MoeGivesItsLogits) {
  expect_fixture("qwen_moe_tiny_config.json", "qwen_moe_tiny.safetensors", "qwen_moe_tiny.json");
}

TEST(PublicCheckpoints, MixtralContinuesGreedily) {
  const std::string file = public_checkpoint("moe_fixtures/full_mixtral.safetensors");
  if (file.empty()) GTEST_SKIP() << "missing data: no public checkpoints beside the checkout";
  const testing::CheckpointFolder folder(public_checkpoint("moe_fixtures/mixtral_tiny_config.json"),
                                         file);
  const auto model = load_model(folder.path());
  const nlohmann::json reference =
      read_json(public_checkpoint("moe_fixtures/full_mixtral_gen.json"));
  auto ids = reference["prompt_ids"].get<std::vector<std::int64_t>>();
  const at::Tensor steps = json_tensor(reference["step_logits"], {4, 48});
  for (std::int64_t step = 0; step < 4; ++step) {
    const at::Tensor last = logits_of(*model, ids)[-1];
    EXPECT_LT(largest_difference(last, steps[step]), 1e-5);
    ids.push_back(last.argmax().item<std::int64_t>());
    EXPECT_EQ(ids.back(), reference["generated_ids"][static_cast<std::size_t>(step)]);
  }
}

/// Layer 0's MoE block alone. Its input is one token, and transformers computed the reference in
/// f64.
void expect_block(const std::string& name, MoeOptions options) {
  const std::string file = public_checkpoint("moe_fixtures/" + name + ".safetensors");
  if (file.empty()) GTEST_SKIP() << "missing data: no public checkpoints beside the checkout";
  const TensorMap tensors = load_tensors(file);
  const nlohmann::json reference = read_json(public_checkpoint("moe_fixtures/" + name + ".json"));
  options.d_model = 64;
  options.experts = 4;
  options.router.k = 2;
  MoeLayer layer(options);
  layer.to(torch::kDouble);
  const torch::NoGradGuard no_grad;
  const std::string stem = "model.layers.0.mlp.";
  for (auto& item : layer.named_parameters()) {
    const std::string key = item.key();
    const auto stored = [&](const std::string& tail) { return tensors.at(stem + tail); };
    if (key == "router.scorer.weight")
      item.value().copy_(stored("gate.weight"));
    else if (key == "experts.gate_up")
      item.value().copy_(stored("experts.gate_up_proj"));
    else if (key == "experts.down")
      item.value().copy_(stored("experts.down_proj"));
    else if (key == "shared_expert.gate_up")
      item.value().copy_(torch::cat(
          {stored("shared_expert.gate_proj.weight"), stored("shared_expert.up_proj.weight")}));
    else if (key == "shared_expert.down")
      item.value().copy_(stored("shared_expert.down_proj.weight"));
    else
      item.value().copy_(stored(key));
  }
  const at::Tensor y = layer.forward(json_tensor(reference["input"], {1, 64})).y;
  EXPECT_LT(largest_difference(y, json_tensor(reference["hf_ref"], {1, 64})), 1e-9);
}

TEST(PublicCheckpoints, AMixtralBlockGivesItsOutput) {
  MoeOptions options{.d_ffn = 128};
  options.router.method = "topk";
  options.router.parts["topk"].set("softmax", "after");
  expect_block("mixtral_layer0", options);
}

TEST(PublicCheckpoints, AQwen2MoeBlockGivesItsOutput) {
  MoeOptions options{.d_ffn = 64, .shared_width = 64, .shared_gate = true};
  options.router.method = "topk";
  expect_block("qwen2_moe_layer0", options);
}

}  // namespace
}  // namespace penstock
