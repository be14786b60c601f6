#include "penstock/convert/export/export_choice.h"

#include <gtest/gtest.h>

#include "penstock/convert/export/not_portable.h"
#include "tests/base/error_of.h"
#include "tests/convert/small_models.h"

namespace penstock {
namespace {

using testing::small_deepseek;
using testing::small_dense;
using testing::small_moe;
using testing::small_qwen3;

constexpr auto kHf = ExportFormat::kHuggingFace;
constexpr auto kGgufFile = ExportFormat::kGguf;

std::string chosen(const ModelConfig& config, ExportFormat format, const std::string& name = "") {
  return std::string(choose_export_target(config.resolved(), format, name).architecture->name);
}

std::string refusal(const ModelConfig& config, ExportFormat format, const std::string& name = "") {
  try {
    choose_export_target(config.resolved(), format, name);
  } catch (const NotPortableError& error) {
    return error.what();
  }
  return "";
}

ModelConfig with_method(const std::string& method, double k) {
  ModelConfig config = small_moe();
  config.router = {.method = method, .k = k};
  return config;
}

TEST(ExportTarget, DenseModelsByTheirBiases) {
  ModelConfig config = small_dense();
  EXPECT_EQ(chosen(config, kHf), "llama");
  EXPECT_EQ(chosen(config, kGgufFile, "qwen2"), "qwen2");  // with biases of 0 added
  EXPECT_TRUE(choose_export_target(config.resolved(), kHf, "qwen2").config.qkv_bias);
  config.qkv_bias = true;
  EXPECT_EQ(chosen(config, kHf), "qwen2");
  testing::expect_says(refusal(config, kHf, "llama"), {"biases"});
  testing::expect_says(refusal(config, kHf, "mixtral"), {"dense"});
  config.head_dim = 8;
  testing::expect_says(refusal(config, kGgufFile), {"as wide as the model"});
}

TEST(ExportTarget, GatesDecideAmongTheExperts) {
  EXPECT_EQ(chosen(small_moe("after"), kHf), "mixtral");
  EXPECT_EQ(chosen(small_moe("before"), kHf), "qwen2moe");
  EXPECT_EQ(chosen(small_moe("before"), kGgufFile), "qwen2moe");
  testing::expect_says(refusal(small_moe("before"), kGgufFile, "mixtral"), {"divides the gates"});
  testing::expect_says(refusal(small_moe("after"), kGgufFile, "qwen2moe"), {"does not divide"});
  const ExportTarget told = choose_export_target(small_moe("after").resolved(), kHf, "qwen2moe");
  EXPECT_TRUE(told.renormalises);  // the config says so
  EXPECT_FALSE(choose_export_target(small_moe("before").resolved(), kHf, "qwen2moe").renormalises);

  ModelConfig single = small_moe("after");
  single.router.k = 1;
  EXPECT_EQ(chosen(single, kHf), "mixtral");
  testing::expect_says(refusal(single, kHf, "qwen2moe"), {"single expert"});

  // If all experts are active, both softmax orders give the same gates.
  ModelConfig all = small_moe("before");
  all.router.k = 4;
  EXPECT_EQ(chosen(all, kGgufFile, "mixtral"), "mixtral");
  all = small_moe("after");
  all.router.k = 4;
  EXPECT_EQ(chosen(all, kGgufFile, "qwen2moe"), "qwen2moe");
}

TEST(ExportTarget, WhatTheTargetHasBesides) {
  const ExportTarget target = choose_export_target(small_moe().resolved(), kGgufFile, "");
  EXPECT_TRUE(target.config.qkv_bias);
  EXPECT_EQ(target.config.moe.shared_width % 32, 0);
  EXPECT_GT(target.config.moe.shared_width, 0);
  EXPECT_TRUE(target.config.moe.shared_gate);
  EXPECT_FALSE(target.config.rope_adjacent);
  EXPECT_TRUE(
      choose_export_target(small_moe("after").resolved(), kGgufFile, "").config.rope_adjacent);
  ModelConfig tied = small_moe();
  tied.tie_embeddings = true;
  EXPECT_FALSE(choose_export_target(tied.resolved(), kGgufFile, "").config.tie_embeddings);
  EXPECT_TRUE(choose_export_target(tied.resolved(), kHf, "").config.tie_embeddings);
  // The export counts granular experts and gives their width.
  ModelConfig granular = small_moe();
  granular.moe.granularity = 3;
  const ModelConfig plain = choose_export_target(granular.resolved(), kHf, "").config;
  EXPECT_EQ(plain.total_experts(), 12);
  EXPECT_EQ(plain.active_experts(), 6);
  EXPECT_EQ(plain.expert_width(), 32);
}

TEST(ExportTarget, NormsOfQueriesAndKeysAreOlmoes) {
  ModelConfig config = small_moe();
  config.qk_norm = true;
  config.norm_eps = 1e-5;
  EXPECT_EQ(chosen(config, kHf), "olmoe");
  testing::expect_says(refusal(config, kGgufFile), {"as many keys"});
  config.kv_heads = 4;
  EXPECT_EQ(chosen(config, kGgufFile), "olmoe");
  config.clip_qkv = 8;
  EXPECT_EQ(chosen(config, kHf, "olmoe"), "olmoe");
  testing::expect_says(refusal(config, kGgufFile), {"cut"});
  testing::expect_says(refusal(small_moe(), kHf, "olmoe"), {"norms q and k"});
}

/// vLLM fixes OLMoE's gates and epsilon and ignores the config's values.
TEST(ExportTarget, WhatOtherProgramsIgnoreHasToBeAskedFor) {
  ModelConfig config = small_moe("before");
  config.qk_norm = true;
  config.norm_eps = 1e-5;
  EXPECT_EQ(choose_export_target(config.resolved(), kHf, "").note, "");
  ModelConfig other = config;
  other.norm_eps = 1e-3;
  testing::expect_says(refusal(other, kHf), {"rms_norm_eps (vLLM)"});
  testing::expect_says(choose_export_target(other.resolved(), kHf, "olmoe").note, {"rms_norm_eps"});
  other = config;
  other.clip_qkv = 8;
  testing::expect_says(refusal(other, kHf), {"clip_qkv"});
  other = small_moe("after");
  other.qk_norm = true;
  other.norm_eps = 1e-5;
  testing::expect_says(refusal(other, kHf), {"norm_topk_prob"});
  testing::expect_says(choose_export_target(small_moe("after").resolved(), kHf, "qwen2moe").note,
                       {"llama.cpp"});
}

TEST(ExportTarget, ABiasOfTheChoiceIsRefusedByItsTensor) {
  ModelConfig config = small_moe("before");
  config.router.balancers = std::vector<std::string>{"z-loss", "loss-free"};
  for (const ExportFormat format : {kHf, kGgufFile})
    testing::expect_says(refusal(config, format), {"penstock.balancer_1 of balancer 'loss-free'"});
  config.router.balancers->pop_back();
  EXPECT_EQ(chosen(config, kHf), "qwen2moe");
  config = with_method("loss-free", 2);
  testing::expect_says(refusal(config, kHf), {"penstock.balancer_0"});
  config.router.balancers = std::vector<std::string>();
  testing::expect_says(refusal(config, kHf), {"no softmax"});
  config = with_method("remoe", 2);
  EXPECT_EQ(refusal(config, kHf).find("penstock.balancer_"), std::string::npos);
  config.router.parts["adaptive-l1"].set("controller", "hold");
  testing::expect_says(refusal(config, kHf), {"penstock.balancer_0 of balancer 'adaptive-l1'"});
}

TEST(ExportTarget, SharedExperts) {
  ModelConfig config = small_moe();
  config.moe.shared_width = 40;
  // The export adds a gate of 1/2.
  EXPECT_TRUE(choose_export_target(config.resolved(), kHf, "").config.moe.shared_gate);
  config.moe.shared_gate = true;
  EXPECT_EQ(chosen(config, kHf), "qwen2moe");
  EXPECT_EQ(choose_export_target(config.resolved(), kHf, "").config.moe.shared_width, 40);
  config.router.parts["topk"].set("softmax", "after");
  testing::expect_says(refusal(config, kGgufFile), {"shared expert"});
}

TEST(ExportTarget, NormsOfEachHeadAreQwen3s) {
  EXPECT_EQ(chosen(small_qwen3(), kHf), "qwen3moe");
  EXPECT_EQ(chosen(small_qwen3(), kGgufFile), "qwen3moe");
  EXPECT_EQ(choose_export_target(small_qwen3().resolved(), kHf, "").note, "");
  testing::expect_says(refusal(small_qwen3(), kHf, "olmoe"), {"all heads of q and k together"});
  testing::expect_says(refusal(small_moe(), kHf, "qwen3moe"), {"norms q and k"});
  ModelConfig whole = small_moe();
  whole.qk_norm = true;
  testing::expect_says(refusal(whole, kHf, "qwen3moe"), {"each head"});
  // llama.cpp's graph divides the gates by their sum and ignores the config.
  ModelConfig probabilities = small_moe();
  probabilities.qk_norm_per_head = true;
  testing::expect_says(refusal(probabilities, kGgufFile), {"by their sum there"});
  testing::expect_says(choose_export_target(probabilities.resolved(), kHf, "").note,
                       {"norm_topk_prob"});
  ModelConfig dense = small_dense();
  dense.qk_norm_per_head = true;
  testing::expect_says(refusal(dense, kGgufFile), {"does not norm q and k"});
}

TEST(ExportTarget, FirstLayersWithoutExpertsAndPlainSharedOnesAreDeepseeks) {
  EXPECT_EQ(chosen(small_deepseek(), kGgufFile), "deepseek");
  EXPECT_EQ(chosen(small_deepseek(), kHf, "deepseek"), "deepseek");
  EXPECT_EQ(
      choose_export_target(small_deepseek().resolved(), kHf, "deepseek").config.moe.dense_width,
      160);
  ModelConfig other = small_deepseek();
  other.moe.shared_width += 1;
  testing::expect_says(refusal(other, kHf, "deepseek"), {"as wide as others"});
  other = small_deepseek();
  other.moe.shared_gate = true;
  testing::expect_says(refusal(other, kHf, "deepseek"), {"no gate"});
  other = small_deepseek();
  other.moe.first_layers = 2;
  testing::expect_says(refusal(other, kHf, "deepseek"), {"the first ones"});
  other = small_deepseek();
  other.moe.shared_width = 0;
  EXPECT_EQ(chosen(other, kHf, "deepseek"), "deepseek");
  testing::expect_says(refusal(other, kGgufFile, "deepseek"), {"the model none"});
  other = small_deepseek();
  other.router.parts["topk"].set("renormalise", true);
  testing::expect_says(refusal(other, kGgufFile, "deepseek"), {"by their sum there"});
  EXPECT_EQ(chosen(other, kHf, "deepseek"), "deepseek");
}

TEST(ExportTarget, RefusesWhatNoProgramComputes) {
  testing::expect_says(refusal(with_method("remoe", 2), kGgufFile), {"positive logits"});
  testing::expect_says(refusal(with_method("expert-choice", 2), kHf), {"not portable, because"});
  testing::expect_says(refusal(with_method("lory", 1), kHf), {"blends"});
  testing::expect_says(refusal(with_method("hash", 1), kHf), {"does not choose by the logits"});
  testing::expect_says(refusal(with_method("gshard", 2), kHf), {"full"});
  testing::expect_says(refusal(with_method("xmoe", 2), kHf), {"not one matrix"});
  ModelConfig some = small_moe();
  some.moe.every = 2;
  testing::expect_says(refusal(some, kGgufFile), {"1 of 2 layers"});
  ModelConfig xl = small_dense();
  xl.architecture = ModelKind::transformer_xl;
  xl.kv_heads = 0;
  testing::expect_says(refusal(xl, kHf), {"Transformer-XL"});
  EXPECT_THROW(choose_export_target(small_dense().resolved(), kHf, "gpt"), Error);
}

TEST(ExportTarget, CapacityThatCannotRunOutIsNoObstacle) {
  ModelConfig config = with_method("switch", 1);
  testing::expect_says(refusal(config, kHf), {"full"});
  ConfigNode options;
  options.set("eval_capacity", 4.0);  // capacity 4 with four experts: every token fits
  config.router.parts["topk-capacity"] = options;
  EXPECT_EQ(chosen(config, kHf), "qwen2moe");
}

TEST(ExportTarget, ABiasThatTrainingLearnsIsSaidBeforehand) {
  const auto lost = [](const ModelConfig& config) {
    return export_lost_by_training(config.resolved());
  };
  testing::expect_says(lost(with_method("smoe", 2)), {"--architecture penstock", "--fit-bias",
                                                      "model.router.linear.bias = false"});
  ModelConfig off = with_method("smoe", 2), turned_on = small_moe();
  off.router.parts["linear"].set("bias", false);
  turned_on.router.parts["linear"].set("bias", true);
  EXPECT_EQ(lost(off), "");
  EXPECT_NE(lost(turned_on), "");
  EXPECT_EQ(lost(small_dense()), "");
  EXPECT_EQ(lost(small_moe()), "");
  EXPECT_EQ(lost(with_method("smoe-dropout", 2)), "");  // a bias that stays 0
  ModelConfig frozen = with_method("smoe", 2);
  frozen.router.parts["linear"].set("frozen", true);
  EXPECT_EQ(lost(frozen), "");
  ModelConfig relu = with_method("remoe", 2);  // no other program computes it in any case
  relu.router.parts["linear"].set("bias", true);
  EXPECT_EQ(lost(relu), "");
}

}  // namespace
}  // namespace penstock
