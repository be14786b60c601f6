// Upcycling small dense models every way: what the experts are, what the result computes, and that
// it trains.
#include "penstock/convert/upcycle/upcycle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/convert/export/export_model.h"
#include "penstock/convert/export/not_portable.h"
#include "penstock/convert/sample_windows.h"
#include "penstock/convert/upcycle/calibration.h"
#include "penstock/convert/upcycle/upcycled_config.h"
#include "penstock/data/tokenizers/from_files.h"
#include "penstock/io/config_json.h"
#include "penstock/layers/moe.h"
#include "penstock/models/files/open_model.h"
#include "penstock/models/fold_routers.h"
#include "penstock/optim/adamw.h"
#include "tests/convert/upcycle/upcycle_fixture.h"

namespace penstock {
namespace {

using testing::difference;
using testing::logits_of;

class Upcycle : public testing::UpcycleTest {
 protected:
  void expect_scale_of_scaled_heads(const std::string& control,
                                    const std::vector<at::Tensor>& inputs);
};

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

/// Whose router would have a bias, which no other program's has.
TEST_F(Upcycle, AGeneratedRouterHasNoBiasUnlessAskedFor) {
  const auto bias_of = [&](const std::string& name) {
    const ResolvedRouter router = resolve(open_model_source(path(name))->config().router);
    return std::get<bool>(router.options.at("hypernetwork").find("bias")->value());
  };
  make(options("hyperrouter"), "plain");
  EXPECT_FALSE(bias_of("plain"));
  EXPECT_EQ(export_model({.model = path("plain"), .out = path("hf"), .check_tokens = 16}).verdict,
            ExportVerdict::exact);
  UpcycleOptions asked = options("hyperrouter");
  ConfigNode bias, parts;
  bias.set("bias", ConfigNode(true));
  parts.set("hypernetwork", bias);
  asked.router_options = parts;
  make(asked, "biased");
  EXPECT_TRUE(bias_of("biased"));
  EXPECT_THROW(export_model({.model = path("biased"), .out = path("no"), .check_tokens = 0}),
               NotPortableError);
  // The method says it by name.
  make(options("smoe"), "named");
  const ResolvedRouter smoe = resolve(open_model_source(path("named"))->config().router);
  EXPECT_TRUE(std::get<bool>(smoe.options.at("linear").find("bias")->value()));
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
  // As the paper has it, two of eight experts with gates of a softmax over all, it does not.
  EXPECT_GT(difference(logits_of(*make(options("vanilla"), "two")), logits_of(*dense)), 1e-2);
}

/// Shards in virtual groups: whole sets are chosen, and "exact" scaling makes their sum what one
/// feed-forward under the same gates gives.
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
        // Each token: two experts' shards 0, the same experts' shards 1 and 2.
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
  for (const std::int64_t e : {0, 3, 4, 11}) {  // shard e / 4 of 8 neurons each
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

TEST_F(Upcycle, RouterUpcyclingTakesItsRoutersFromTheHeads) {
  UpcycleOptions how = options("router-upcycling");
  how.routers = 4;
  how.query_bias = true;
  make(how);
  const auto dense = open_model_source(path("dense")), moe = open_model_source(path("out"));
  const auto keys = mean_keys(*dense, sample_windows(path("text"), *dense, {}), {});
  for (std::size_t layer = 0; layer < 2; ++layer) {
    const std::string stem = "model.layers." + std::to_string(layer) + ".";
    const HeadGroups& groups = report_.groups.at(layer);
    ASSERT_EQ(groups.queries.size(), 4U);
    ASSERT_EQ(groups.keys.size(), 8U);
    const at::Tensor queries = moe->tensor(stem + "mlp.router.scorer.queries"),
                     made = moe->tensor(stem + "mlp.router.scorer.keys"),
                     weight = dense->tensor(stem + "self_attn.q_proj.weight"),
                     bias = dense->tensor(stem + "self_attn.q_proj.bias");
    ASSERT_EQ(queries.sizes(), (std::vector<std::int64_t>{4, 8, 32}));
    for (std::int64_t j = 0; j < 4; ++j)
      for (std::int64_t part = 0; part < 2; ++part) {
        const std::int64_t head =
            groups.queries[static_cast<std::size_t>(j)][static_cast<std::size_t>(part)];
        EXPECT_TRUE(queries[j].narrow(0, part * 4, 4).equal(weight.narrow(0, head * 4, 4)));
        EXPECT_TRUE(moe->tensor(stem + "mlp.router.scorer.query_bias")[j]
                        .narrow(0, part * 4, 4)
                        .equal(bias.narrow(0, head * 4, 4)));
      }
    for (std::int64_t i = 0; i < 8; ++i)
      for (std::int64_t part = 0; part < 2; ++part) {
        const std::int64_t head =
            groups.keys[static_cast<std::size_t>(i)][static_cast<std::size_t>(part)];
        EXPECT_LT(difference(made[i].narrow(0, part * 4, 4), keys[layer][head]), 1e-7);
      }
  }
  const auto json = read_json(path("out/upcycling.json"));
  EXPECT_EQ(json["layers"][1]["routers"].get<std::vector<HeadGroup>>(), report_.groups[1].queries);
  EXPECT_EQ(json["layers"][0]["similarity"].size(), 8U);
}

/// m > n: as many keys as routers, two per expert; more routers than heads: halves of heads.
TEST_F(Upcycle, MoreRoutersThanExperts) {
  UpcycleOptions how = options("router-upcycling");
  how.experts = 4;
  how.routers = 16;
  const auto model = make(how);
  const auto moe = open_model_source(path("out"));
  const std::string stem = "model.layers.0.mlp.router.scorer.";
  EXPECT_EQ(moe->shape(stem + "queries"), (std::vector<std::int64_t>{16, 2, 32}));
  EXPECT_EQ(moe->shape(stem + "keys"), (std::vector<std::int64_t>{16, 2}));
  EXPECT_EQ(report_.groups[0].parts, 2);
  EXPECT_TRUE(logits_of(*model).isfinite().all().item<bool>());
  EXPECT_FALSE(resolve(moe->config().router).traits.foldable);
}

TEST_F(Upcycle, TheCollapsedRouterStartsAsTheSameFunction) {
  UpcycleOptions how = options("router-upcycling");
  const auto factored = make(how, "factored");
  how.collapsed = true;
  const auto collapsed = make(how, "collapsed");
  EXPECT_LT(difference(logits_of(*factored), logits_of(*collapsed)), 1e-4);
  EXPECT_LT(difference(logits_of(*fold_routers(*factored)), logits_of(*factored)), 1e-4);
  EXPECT_EQ(open_model_source(path("collapsed"))->shape("model.layers.0.mlp.gate.weight"),
            (std::vector<std::int64_t>{8, 32}));
}

/// The random control's logits deviate as those of Router Upcycling with the default start do.
void Upcycle::expect_scale_of_scaled_heads(const std::string& control,
                                           const std::vector<at::Tensor>& inputs) {
  UpcycleOptions how = options("router-upcycling");
  how.start = UpcycleStart::parent;
  make(how, "scaled-heads");
  const auto heads = open_model_source(path("scaled-heads")), random = open_model_source(control);
  for (std::size_t layer = 0; layer < 2; ++layer) {
    const std::string stem = "model.layers." + std::to_string(layer) + ".mlp.";
    const at::Tensor queries = heads->tensor(stem + "router.scorer.queries").sum(0),
                     keys = heads->tensor(stem + "router.scorer.keys");
    const at::Tensor scores = inputs[layer].matmul(queries.t()).matmul(keys.t()) / 2;  // √4
    const at::Tensor plain = inputs[layer].matmul(random->tensor(stem + "gate.weight").t());
    EXPECT_NEAR(plain.std().item<double>(), scores.std().item<double>(),
                1e-3 * scores.std().item<double>());
  }
}

TEST_F(Upcycle, TheRandomControlHasRouterUpcyclingsLogitScale) {
  make(options("router-upcycling"), "heads");
  const auto heads = open_model_source(path("heads"));
  const auto dense = open_model_source(path("dense"));
  const auto inputs =
      testing::feed_forward_inputs(*dense, sample_windows(path("text"), *dense, {}));
  for (const std::int64_t granularity : {1, 2}) {
    UpcycleOptions how = options("vanilla");
    how.calibration = path("text");
    how.granularity = granularity;
    how.match_logits = true;
    how.match_lr = true;
    const std::string out = "matched" + std::to_string(granularity);
    make(how, out);
    const auto matched = open_model_source(path(out));
    EXPECT_GT(report_.lr_scale, 0);
    EXPECT_EQ(matched->config().router.lr_scale, report_.lr_scale);
    // Of a start as the parent, the scale of Router Upcycling's logits when they are scaled.
    how.start = UpcycleStart::parent;
    make(how, out + "-parent");
    how.start = UpcycleStart::published;
    if (granularity == 1) expect_scale_of_scaled_heads(path(out + "-parent"), inputs);
    for (std::size_t layer = 0; layer < 2; ++layer) {
      const std::string stem = "model.layers." + std::to_string(layer) + ".mlp.";
      const at::Tensor plain = inputs[layer].matmul(matched->tensor(stem + "gate.weight").t());
      const at::Tensor queries = heads->tensor(stem + "router.scorer.queries").sum(0),
                       keys = heads->tensor(stem + "router.scorer.keys");
      const at::Tensor scores = inputs[layer].matmul(queries.t()).matmul(keys.t()) / 2;  // √4
      EXPECT_NEAR(plain.std().item<double>(), scores.std().item<double>(),
                  1e-4 * scores.std().item<double>());
    }
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
  EXPECT_NEAR(noise.std().item<double>(), 0.05, 0.006);  // 768 draws: 2.6 % is one deviation
  EXPECT_TRUE(a->tensor(name).equal(b->tensor(name)));
  EXPECT_FALSE(a->tensor(name).equal(a->tensor("model.layers.0.mlp.experts.4.up_proj.weight")));
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

/// ReLU selection on top of attention heads: it loads, runs, and its λ moves.
TEST_F(Upcycle, ReMoeOnTopOfAttentionHeads) {
  UpcycleOptions how = options("remoe");
  how.scorer = "router-upcycling";
  how.calibration = path("text");
  const auto model = make(how);
  EXPECT_EQ(resolve(model->config().router).scorer, "mixture");
  EXPECT_EQ(resolve(model->config().router).selector, "relu");
  EXPECT_TRUE(logits_of(*model).isfinite().all().item<bool>());
  ASSERT_EQ(model->balancers().size(), 1U);
  EXPECT_EQ(model->balancers()[0]->state().at("lambda"), 1e-8f);
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
  refused({.method = "vanilla", .routers = 4});  // no mixture
  refused({.method = "dense"});
  ModelConfig xl = dense->config();
  xl.architecture = ModelKind::transformer_xl;
  try {
    upcycled_config(xl, {.method = "vanilla"});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("SwiGLU"), std::string::npos) << error.what();
  }
  refused({.method = "remoe", .renormalise = true});  // no softmax
  refused({.method = "remoe", .calibration = path("text"), .start_entropy = 1.5});
  refused({.method = "remoe", .start = UpcycleStart::parent});  // no text
  refused({.method = "remoe",
           .start = UpcycleStart::parent,
           .calibration = path("text"),
           .match_logits = true});
  refused({.method = "locmoe", .granularity = 2});   // no rows to repeat
  refused({.method = "vanilla", .granularity = 5});  // 24 / 5
  refused({.method = "vanilla", .k = 9});
  UpcycleOptions how = options("router-upcycling");
  how.routers = 3;
  refused(how);
  how = options("router-upcycling");
  how.keys = 4;
  refused(how);
  make(options("vanilla"));
  EXPECT_THROW(upcycle(*dense, options("vanilla"), real_file_system(), path("out")), Error);
  EXPECT_THROW(upcycled_config(open_model_source(path("out"))->config(), options("vanilla")),
               Error);
}

}  // namespace
}  // namespace penstock
