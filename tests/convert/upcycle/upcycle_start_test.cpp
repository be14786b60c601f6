// The start of upcycled models: with the parent's function if the method can, with gates of a given
// sum, or with logits of a given entropy.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/convert/sample_windows.h"
#include "penstock/convert/upcycle/upcycled_config.h"
#include "penstock/io/config_json.h"
#include "penstock/layers/moe.h"
#include "penstock/models/files/open_model.h"
#include "tests/base/error_of.h"
#include "tests/convert/upcycle/upcycle_fixture.h"

namespace penstock {
namespace {

using testing::difference;
using testing::logits_of;

class UpcycledStart : public testing::UpcycleTest {
 protected:
  double first_gate_sum(LanguageModel& model) const;
};

/// Two of eight experts, gates that sum to one and logits of a given entropy give the parent's
/// function.
TEST_F(UpcycledStart, MayStartAsItsParent) {
  const auto dense = load_model(path("dense"));
  for (const std::string method :
       {"vanilla", "locmoe", "mlp", "router-upcycling", "router-upcycling-max", "hyperrouter"}) {
    SCOPED_TRACE(method);
    UpcycleOptions how = options(method);
    how.start = UpcycleStart::parent;
    EXPECT_LT(difference(logits_of(*make(how, method)), logits_of(*dense)), 1e-5);
    EXPECT_EQ(report_.logit_scales.size(), method.starts_with("router-upcycling") ? 2U : 0U);
  }
  const auto json = read_json(path("router-upcycling/upcycling.json"));
  EXPECT_NEAR(json["start_entropy"].get<double>(), 0.87 * std::log(8.0), 1e-9);
  EXPECT_TRUE(json["renormalise"].get<bool>());
}

/// A gate fixed at one would give the router no gradient, so top-1 starts as published. The report
/// gives the sums of gates.
TEST_F(UpcycledStart, OneExpertOfASoftmaxDoesNotStartAsTheParent) {
  UpcycleOptions how = options("switch");
  how.start = UpcycleStart::parent;
  const auto blind = make(how, "blind");
  EXPECT_TRUE(report_.gate_sums.empty());
  EXPECT_TRUE(measures_gate_sums(report_.config, how));
  how.calibration = path("text");
  const auto seen = logits_of(*make(how, "seen"));
  EXPECT_TRUE(seen.equal(logits_of(*blind)));
  ASSERT_EQ(report_.gate_sums.size(), 2U);
  for (const double sum : report_.gate_sums) {
    EXPECT_GT(sum, 0.05);  // 1/8 if gates are even, less if the capacity refuses tokens
    EXPECT_LT(sum, 0.9);
  }
  EXPECT_EQ(read_json(path("seen/upcycling.json"))["gate_sums"].size(), 2U);
  how.start = UpcycleStart::published;
  how.calibration.clear();
  EXPECT_TRUE(seen.equal(logits_of(*make(how, "published"))));
  how = options("vanilla");
  how.start = UpcycleStart::parent;
  make(how, "vanilla");
  EXPECT_FALSE(measures_gate_sums(report_.config, how));
}

/// The mean over the text of the first layer's sum of gates. Later layers' inputs differ from the
/// parent's.
double UpcycledStart::first_gate_sum(LanguageModel& model) const {
  const torch::NoGradGuard no_grad;
  const at::Tensor windows = sample_windows(path("text"), *open_model_source(path("dense")), {});
  double sum = 0;
  model.forward({.tokens = windows}, {}, [&](std::int64_t layer, const RoutingResult& result) {
    if (layer == 0) sum = result.plan.weight.sum().item<double>();
  });
  return sum / static_cast<double>(windows.numel());
}

TEST_F(UpcycledStart, ReluGatesStartWithAMeanSumOfOne) {
  const auto dense = logits_of(*load_model(path("dense")));
  for (const std::string scorer : {"", "router-upcycling"}) {
    SCOPED_TRACE(scorer);
    UpcycleOptions how = options("remoe");
    how.scorer = scorer;
    how.calibration = path("text");
    const auto published = make(how, "published" + scorer);
    how.start = UpcycleStart::parent;
    const auto model = make(how, "parent" + scorer);
    EXPECT_TRUE(report_.logit_scales.empty());  // only a softmax has an entropy
    ASSERT_EQ(report_.gate_sums.size(), 2U);
    EXPECT_NEAR(first_gate_sum(*published), report_.gate_sums[0], 0.02 * report_.gate_sums[0]);
    EXPECT_NEAR(first_gate_sum(*model), 1, 0.02);  // the scale was fitted on some of the windows
    EXPECT_LT(difference(logits_of(*model), dense), difference(logits_of(*published), dense));
  }
  UpcycleOptions shards = options("remoe");
  shards.start = UpcycleStart::parent;
  shards.calibration = path("text");
  shards.granularity = 2;
  EXPECT_NEAR(first_gate_sum(*make(shards, "shards")), 2, 0.04);
}

/// The shift that switches k experts on is computed from the router that was made. Φ⁻¹(1 − 2/8) is
/// 0.67449.
TEST_F(UpcycledStart, AShiftOfTheLogitsStartsAtItsTarget) {
  ConfigNode router;
  router.set("balancers", ConfigNode::Array{ConfigNode(std::string("threshold"))});
  router.set("threshold.start", std::string("target"));
  for (const std::string scorer : {"", "router-upcycling"}) {
    for (const UpcycleStart start : {UpcycleStart::published, UpcycleStart::parent}) {
      SCOPED_TRACE(concat(scorer, " ", word(start)));
      UpcycleOptions how = options("remoe");
      how.scorer = scorer;
      how.calibration = path("text");
      how.start = start;
      how.router_options = router;
      const std::string out = concat("shifted", scorer, word(start));
      const auto model = make(how, out);
      const at::Tensor shifts = open_model_source(path(out))->tensor("penstock.balancer_0.bias");
      ASSERT_EQ(shifts.sizes(), (std::vector<std::int64_t>{2, 8}));
      for (std::int64_t layer = 0; layer < 2; ++layer) {
        const FoldedScorer matrix =
            model->moe_layers()[static_cast<std::size_t>(layer)]->router().scorer().fold();
        const at::Tensor lengths = matrix.weight.square().sum(1).sqrt();
        EXPECT_LT(difference(shifts[layer], lengths * -0.67449),
                  1e-4 * lengths.max().item<double>());
      }
      if (start == UpcycleStart::parent) {
        EXPECT_NEAR(first_gate_sum(*model), 1, 0.1);
      }
    }
  }
}

/// The entropy of the softmax over the router's logits, measured in the finished model on the same
/// text.
TEST_F(UpcycledStart, StartsWithTheEntropyAskedFor) {
  const torch::NoGradGuard no_grad;
  const auto dense = open_model_source(path("dense"));
  const at::Tensor windows = sample_windows(path("text"), *dense, {});
  const auto inputs = testing::feed_forward_inputs(*dense, windows);
  for (const std::string& method : testing::kUpcycleMethods) {
    SCOPED_TRACE(method);
    UpcycleOptions how = options(method);
    how.calibration = path("text");
    how.start_entropy = 1.5;
    if (method == "locmoe" || method == "remoe") {  // locmoe has no parameters, remoe no softmax
      EXPECT_THROW(make(how, method), Error);
      continue;
    }
    const auto model = make(how, method);
    ASSERT_EQ(report_.logit_scales.size(), 2U);
    std::size_t layer = 0;
    model->forward({.tokens = windows.slice(0, 0, 16)}, {},
                   [&](std::int64_t, const RoutingResult& routing) {
                     if (layer++ > 0) return;  // later layers' inputs differ from the parent's
                     const at::Tensor p = routing.scores.logits.softmax(1);
                     const double found = -(p * p.log()).sum(1).mean().item<double>();
                     EXPECT_NEAR(found, 1.5, 0.15);  // measured on some of the windows
                   });
    if (method == "vanilla") {
      for (std::size_t l = 0; l < 2; ++l) {
        const at::Tensor gate =
            open_model_source(path(method))
                ->tensor("model.layers." + std::to_string(l) + ".mlp.gate.weight");
        const at::Tensor p = inputs[l].matmul(gate.t()).to(at::kDouble).softmax(1);
        // The scale was fitted on some of the windows.
        EXPECT_NEAR(-(p * p.log()).sum(1).mean().item<double>(), 1.5, 0.01);
      }
    }
  }
  UpcycleOptions blind{.method = "vanilla", .start_entropy = 1.5};
  EXPECT_THROW(make(blind, "blind"), Error);  // no text
}

TEST_F(UpcycledStart, AnUntiedHeadIsTheEmbeddingsAtFirst) {
  UpcycleOptions how = options("vanilla");
  const auto tied = logits_of(*make(how, "tied"));
  how.untie = true;
  const auto model = make(how, "untied");
  EXPECT_FALSE(model->config().tie_embeddings);
  EXPECT_TRUE(logits_of(*model).equal(tied));
  const auto source = open_model_source(path("untied"));
  EXPECT_TRUE(source->tensor("lm_head.weight").equal(source->tensor("model.embed_tokens.weight")));
  ModelConfig apart = testing::tiny_config();
  apart.tie_embeddings = false;
  testing::expect_error([&] { upcycled_config(apart, how); }, {"options.untie"});
}

}  // namespace
}  // namespace penstock
