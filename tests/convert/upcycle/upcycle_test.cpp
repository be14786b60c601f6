// Upcycling small dense models by every method: the experts' weights, the result's function, and
// its training. upcycle_routers_test.cpp tests the routers.
#include "penstock/convert/upcycle/upcycle.h"

#include <gtest/gtest.h>

#include <cmath>

#include "penstock/base/atomic_files.h"
#include "penstock/base/error.h"
#include "penstock/convert/upcycle/upcycled_config.h"
#include "penstock/data/tokenizers/from_files.h"
#include "penstock/layers/moe.h"
#include "penstock/optim/adamw.h"
#include "tests/base/error_of.h"
#include "tests/convert/upcycle/upcycle_fixture.h"

namespace penstock {
namespace {

using testing::difference;
using testing::logits_of;

using Upcycle = testing::UpcycleTest;

TEST_F(Upcycle, ExpertsAreTheFeedForwardAndTheRestIsTheParent) {
  const auto dense = open_model_source(path("dense"));
  for (const std::string& method : testing::kUpcycleMethods) {
    SCOPED_TRACE(method);
    make(options(method), method);
    const auto source = open_model_source(path(method));
    EXPECT_EQ(source->config().moe.experts, 8);
    EXPECT_EQ(source->config().router.method, method);
    std::int64_t experts = 0, others = 0;
    for (const std::string& name : source->names()) {
      if (name.find(".mlp.router.") != std::string::npos || name.ends_with(".mlp.gate.weight") ||
          name.starts_with("penstock.balancer"))
        continue;
      const std::string from = parent_name(name);
      EXPECT_TRUE(source->tensor(name).equal(dense->tensor(from))) << name;
      ++(from == name ? others : experts);
    }
    EXPECT_EQ(experts, 2 * 8 * 3);
    EXPECT_EQ(others, static_cast<std::int64_t>(dense->names().size()) - 2 * 3);
    EXPECT_EQ(load_tokenizer(path(method))->files(), dense->tokenizer()->files());
  }
}

TEST_F(Upcycle, AllExpertsWithGatesThatSumToOneComputeTheDenseModel) {
  const auto dense = load_model(path("dense"));
  for (const std::string method :
       {"vanilla", "locmoe", "mlp", "router-upcycling", "router-upcycling-max", "switch"}) {
    SCOPED_TRACE(method);
    UpcycleOptions how = options(method);
    how.k = 8;
    how.renormalise = true;
    const auto model = make(how, method);
    EXPECT_LT(difference(logits_of(*model), logits_of(*dense)), 1e-5);
  }
  // With the paper's gates (softmax over all, two of eight experts) the result is not the parent's
  // function.
  EXPECT_GT(difference(logits_of(*make(options("vanilla"), "two")), logits_of(*dense)), 1e-2);
}

/// Shards in virtual groups: all shards of an expert are chosen together, and "exact" scaling makes
/// their sum equal to one feed-forward with the same gates.
TEST_F(Upcycle, ShardsAreChosenTogetherAndMakeUpForTheirGates) {
  const auto dense = load_model(path("dense"));
  UpcycleOptions how{.method = "vanilla",
                     .experts = 4,
                     .k = 4,
                     .renormalise = true,
                     .granularity = 3,
                     .scale = ShardScale::exact};
  EXPECT_LT(difference(logits_of(*make(how, "all")), logits_of(*dense)), 1e-5);
  EXPECT_EQ(report_.shard_scale, 3);  // G
  how.k = 2;
  const auto some = make(how, "some");
  EXPECT_LT(difference(logits_of(*some), logits_of(*dense)), 1e-5);
  const torch::NoGradGuard no_grad;
  some->forward(
      {.tokens = torch::arange(20, at::kLong).view({1, 20})}, {},
      [&](std::int64_t, const RoutingResult& result) {
        // Each token's plan: shard 0 of two experts, then shards 1 and 2 of the same experts.
        const at::Tensor by_token =
            result.plan.expert.index_select(0, result.plan.by_token).view({20, 3, 2});
        EXPECT_TRUE((by_token % 4).eq((by_token % 4).select(1, 0).unsqueeze(1)).all().item<bool>());
        EXPECT_TRUE(
            (by_token.div(4, "floor")).eq(torch::arange(3).view({1, 3, 1})).all().item<bool>());
      });
  // Softmax over all twelve: uniform gates 1/12, six chosen: a = 4·9/6 = 6.
  how.renormalise = false;
  make(how, "before");
  EXPECT_EQ(report_.shard_scale, 6);
  how.method = "remoe";
  make(how, "relu");
  EXPECT_EQ(report_.shard_scale, 1);
}

TEST_F(Upcycle, ShardsAreThePublishedOnes) {
  make({.method = "vanilla", .experts = 4, .k = 2, .granularity = 3});
  const auto dense = open_model_source(path("dense")), moe = open_model_source(path("out"));
  const std::string stem = "model.layers.1.mlp.";
  const double factor = std::cbrt(6.0);
  for (const std::int64_t e : {0, 3, 4, 11}) {  // shard e / 4 has 8 neurons
    const std::string expert = stem + "experts." + std::to_string(e) + ".";
    for (const char* part : {"gate_proj.weight", "up_proj.weight"})
      EXPECT_LT(difference(moe->tensor(expert + part),
                           dense->tensor(stem + part).narrow(0, e / 4 * 8, 8) * factor),
                1e-6);
    EXPECT_LT(difference(moe->tensor(expert + "down_proj.weight"),
                         dense->tensor(stem + "down_proj.weight").narrow(1, e / 4 * 8, 8) * factor),
              1e-6);
  }
}

TEST_F(Upcycle, SharedExpertsAddNothingOrTheFeedForward) {
  const auto dense = load_model(path("dense"));
  UpcycleOptions how{.method = "vanilla", .k = 8, .renormalise = true};
  how.shared_width = 20;
  EXPECT_LT(difference(logits_of(*make(how, "new")), logits_of(*dense)), 1e-5);
  EXPECT_EQ(
      open_model_source(path("new"))->shape("model.layers.0.mlp.shared_expert.up_proj.weight"),
      (std::vector<std::int64_t>{20, 32}));
  how.shared_width = 0;
  how.shared_copy = true;
  make(how, "copy");
  const auto copy = open_model_source(path("copy"));
  EXPECT_TRUE(
      copy->tensor("model.layers.0.mlp.shared_expert.gate_proj.weight")
          .equal(open_model_source(path("dense"))->tensor("model.layers.0.mlp.gate_proj.weight")));
}

TEST_F(Upcycle, NoiseIsOfItsSizeAndRepeats) {
  const UpcycleOptions how{.method = "vanilla", .noise = 0.05};
  make(how, "a");
  make(how, "b");
  const auto a = open_model_source(path("a")), b = open_model_source(path("b")),
             dense = open_model_source(path("dense"));
  const std::string name = "model.layers.0.mlp.experts.3.up_proj.weight";
  const at::Tensor noise = a->tensor(name) - dense->tensor(parent_name(name));
  EXPECT_NEAR(noise.std().item<double>(), 0.05, 0.006);  // 768 draws: the standard error is 2.6 %
  EXPECT_TRUE(a->tensor(name).equal(b->tensor(name)));
  EXPECT_FALSE(a->tensor(name).equal(a->tensor("model.layers.0.mlp.experts.4.up_proj.weight")));
}

TEST_F(Upcycle, KeepsTheParentsChatTemplate) {
  const std::string text = "{{ '<|im_start|>' }}\n";
  write_file_atomically(real_file_system(), path("dense/chat_template.jinja"), text);
  make(options("vanilla"));
  EXPECT_EQ(real_file_system().read(path("out/chat_template.jinja")), text);
}

TEST_F(Upcycle, KeepsTheParentsGenerationConfig) {
  const std::string text = "{\"eos_token_id\": 256, \"top_p\": 0.8}\n";
  write_file_atomically(real_file_system(), path("dense/generation_config.json"), text);
  make(options("vanilla"));
  EXPECT_EQ(real_file_system().read(path("out/generation_config.json")), text);
}

TEST_F(Upcycle, KeepsTheParentsTypeUnlessTold) {
  testing::write_parent(path("half"), testing::tiny_config(), at::kBFloat16);
  const auto half = open_model_source(path("half"));
  upcycle(*half, options("router-upcycling"), real_file_system(), path("same"));
  UpcycleOptions wide{.method = "vanilla", .dtype = UpcycleDtype::f32};
  upcycle(*half, wide, real_file_system(), path("wide"));
  const std::string expert = "model.layers.0.mlp.experts.1.up_proj.weight";
  const auto same = open_model_source(path("same"));
  EXPECT_EQ(same->tensor(expert).scalar_type(), at::kBFloat16);
  EXPECT_EQ(same->tensor("model.layers.0.mlp.router.scorer.keys").scalar_type(), at::kFloat);
  EXPECT_EQ(open_model_source(path("wide"))->tensor(expert).scalar_type(), at::kFloat);
}

TEST_F(Upcycle, AnUpcycledModelTrains) {
  for (const std::string& method : testing::kUpcycleMethods) {
    SCOPED_TRACE(method);
    const auto model = make(options(method), method);
    model->train();
    AdamW optimizer(*model, {.weight_decay = 0});
    const at::Tensor tokens = torch::arange(64, at::kLong).view({2, 32}) * 7 % 50;
    double first = 0, last = 0;
    for (int step = 0; step < 6; ++step) {
      RoutingContext context{.step = step, .total_steps = 6, .training = true};
      const ModelOutput out = model->forward({.tokens = tokens}, context);
      at::Tensor loss = model->loss(out.hidden, tokens.roll(-1, 1).reshape({-1}));
      last = loss.item<double>();
      if (step == 0) first = last;
      if (out.auxiliary_loss.defined()) loss = loss + out.auxiliary_loss;
      loss.backward();
      optimizer.update(3e-3);
      optimizer.zero_gradients();
    }
    EXPECT_LT(last, 0.9 * first);
  }
}

TEST_F(Upcycle, WhatDoesNotFitIsRefused) {
  const auto dense = open_model_source(path("dense"));
  const auto refused = [&](UpcycleOptions how) {
    EXPECT_THROW(upcycle(*dense, how, real_file_system(), path("out")), Error);
    EXPECT_FALSE(real_file_system().exists(path("out")));
  };
  refused({.method = "router-upcycling"});       // no text
  refused({.method = "vanilla", .routers = 4});  // no mixture of heads
  refused({.method = "dense"});
  ModelConfig xl = dense->config();
  xl.architecture = ModelKind::transformer_xl;
  testing::expect_error([&] { check_can_upcycle(xl, "the/xl"); }, {"the/xl: ", "SwiGLU"});
  refused({.method = "remoe", .renormalise = true});  // no softmax
  refused({.method = "remoe", .calibration = path("text"), .start_entropy = 1.5});
  refused({.method = "remoe", .start = UpcycleStart::parent});  // no text
  refused({.method = "remoe",
           .start = UpcycleStart::parent,
           .calibration = path("text"),
           .match_logits = true});
  refused({.method = "locmoe", .granularity = 2});   // no rows to repeat for the groups
  refused({.method = "vanilla", .granularity = 5});  // 5 does not divide 24
  refused({.method = "vanilla", .k = 9});
  UpcycleOptions how = options("router-upcycling");
  how.routers = 3;
  refused(how);
  how = options("router-upcycling");
  how.keys = 4;
  refused(how);
  make(options("vanilla"));
  EXPECT_THROW(upcycle(*dense, options("vanilla"), real_file_system(), path("out")), Error);
  const auto moe = open_model_source(path("out"));
  testing::expect_error(
      [&] { upcycle(*moe, options("vanilla"), real_file_system(), path("again")); },
      {path("out"), "has experts already"});
  ModelConfig clipped = dense->config();
  clipped.clip_qkv = 1;
  testing::write_parent(path("clipped"), clipped);
  testing::expect_error(
      [&] {
        upcycle(*open_model_source(path("clipped")), options("router-upcycling"),
                real_file_system(), path("again"));
      },
      {path("clipped"), "clipped before attention"});
}

}  // namespace
}  // namespace penstock
