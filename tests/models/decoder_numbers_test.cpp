// Shared experts, norms of queries and keys, and clipped queries, keys and values, against
// decoder_numbers.py.
#include <gtest/gtest.h>
#include <torch/types.h>

#include "penstock/base/error.h"
#include "penstock/models/counts/flops.h"
#include "penstock/models/counts/parameter_count.h"
#include "penstock/models/decoder.h"
#include "penstock/models/make_model.h"
#include "tests/models/script_numbers.h"

namespace penstock {
namespace {

ModelConfig numbers_config() {
  ModelConfig config{.vocab = 13, .d_model = 8, .layers = 2, .heads = 4, .kv_heads = 2};
  config.head_dim = 4;
  config.d_ffn = 5;
  config.rope_base = 100;
  config.moe = {.experts = 4, .shared_width = 3};
  config.router.method = "topk";
  config.router.k = 2;
  return config;
}

ModelConfig gated() {
  ModelConfig config = numbers_config();
  config.moe.shared_gate = true;
  return config;
}

ModelConfig normed_and_cut() {
  ModelConfig config = numbers_config();
  config.qk_norm = true;
  config.clip_qkv = 0.4;
  return config;
}

/// Norms of each head as in Qwen3, and a first dense layer and ungated shared experts as in
/// DeepSeekMoE.
ModelConfig normed_heads_dense_first() {
  ModelConfig config = numbers_config();
  config.qk_norm_per_head = true;
  config.moe.dense_layers = 1;
  config.moe.dense_width = 7;
  return config;
}

void expect_numbers_of_script(const std::string& name, const ModelConfig& config) {
  const auto expected = testing::script_numbers("decoder_numbers.txt", name);
  Decoder model(config);
  model.initialize(InitialDraws(1));
  testing::fill_by_rule(model);
  ASSERT_EQ(file_tensors(model).size() + 1, expected.size());
  const at::Tensor t = torch::arange(7).unsqueeze(0), b = torch::arange(2).unsqueeze(1);
  const at::Tensor ids = (5 * b + 3 * t + t * t).remainder(13);
  const at::Tensor hidden = model.forward({.tokens = ids.narrow(1, 0, 6)}, {}).hidden;
  const at::Tensor loss = model.loss(hidden, ids.narrow(1, 1, 6).reshape({-1}));
  EXPECT_NEAR(loss.item<double>(), expected.at("loss").at(0), 1e-10);
  loss.backward();
  testing::expect_gradients(model, expected);
}

TEST(DecoderNumbers, AGatedSharedExpertAgreesWithTheScript) {
  expect_numbers_of_script("gated", gated());
}

TEST(DecoderNumbers, NormedAndCutQueriesAgreeWithTheScript) {
  expect_numbers_of_script("olmoe", normed_and_cut());
}

TEST(DecoderNumbers, NormedHeadsAndADenseFirstLayerAgreeWithTheScript) {
  expect_numbers_of_script("heads", normed_heads_dense_first());
}

TEST(DecoderNumbers, TheCountsAreTheirs) {
  for (const ModelConfig& config : {gated(), normed_and_cut(), normed_heads_dense_first()}) {
    std::int64_t parameters = 0;
    for (const auto& parameter : make_model(config, 1)->parameters())
      parameters += parameter.numel();
    EXPECT_EQ(count_parameters(config.resolved()).total, parameters);
  }
  ModelConfig without = gated();
  without.moe.shared_width = 0;
  without.moe.shared_gate = false;
  // Each layer has three matrices of 3 x 8 and a gate of 8. Every token uses them, at 6 FLOPs a
  // multiply-add in training.
  EXPECT_EQ(
      count_parameters(gated().resolved()).active - count_parameters(without.resolved()).active,
      2 * (72 + 8));
  EXPECT_EQ(useful_training_flops(gated(), 10, 0, 0) - useful_training_flops(without, 10, 0, 0),
            6 * 10 * 2 * (72 + 8));
}

TEST(DecoderNumbers, WhatNothingWouldUseIsRefused) {
  ModelConfig config = numbers_config();
  config.moe.shared_width = 0;
  config.moe.shared_gate = true;
  EXPECT_THROW(config.resolved(), Error);
  config = numbers_config();
  config.moe.dense_width = 7;  // there is no dense layer
  EXPECT_THROW(config.resolved(), Error);
  config = normed_heads_dense_first();
  config.moe.dense_layers = 2;  // every layer
  EXPECT_THROW(config.resolved(), Error);
  config = normed_heads_dense_first();
  config.qk_norm = true;  // norms of both kinds
  EXPECT_THROW(config.resolved(), Error);
  for (const auto& change :
       {+[](ModelConfig& c) { c.qk_norm = true; }, +[](ModelConfig& c) { c.clip_qkv = 8; },
        +[](ModelConfig& c) { c.qk_norm_per_head = true; },
        +[](ModelConfig& c) { c.moe.shared_width = 3; }}) {
    ModelConfig xl = numbers_config();
    xl.moe.shared_width = 0;
    xl.architecture = ModelKind::transformer_xl;
    xl.kv_heads = 4;
    EXPECT_NO_THROW(xl.resolved());
    change(xl);
    EXPECT_THROW(xl.resolved(), Error);
  }
}

}  // namespace
}  // namespace penstock
