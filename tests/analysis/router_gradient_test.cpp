// Sums of gates and the gradient of routers, against finite differences of the loss and against
// theory.
#include "penstock/analysis/router_gradient.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "penstock/analysis/probe.h"
#include "penstock/base/error.h"
#include "penstock/models/batch_tensors.h"
#include "penstock/train/initial_model.h"
#include "tests/base/error_of.h"
#include "tests/convert/upcycle/upcycle_fixture.h"
#include "tests/data/prepared_corpus.h"
#include "tests/train/small_run.h"

namespace penstock::analysis {
namespace {

Corpus corpus_of_lines(const std::string& directory) {
  testing::write_text(directory + "/lines.txt");
  return testing::prepared_corpus({.inputs = {{.path = directory + "/lines.txt"}},
                                   .split = "contiguous:0.5,0.25,0.25",
                                   .out = directory + "/corpus"});
}

constexpr RouterGradientOptions kOptions{.tokens = 64, .sequence_length = 16};

class RouterGradients : public testing::UpcycleTest {
 protected:
  void SetUp() override {
    UpcycleTest::SetUp();
    corpus_.emplace(corpus_of_lines(temp_.path().string()));
  }
  /// The loss that router_gradients differentiates.
  double loss(LanguageModel& model) {
    const torch::NoGradGuard no_grad;
    const Batch batch = EvaluationWindows(*corpus_, kOptions.split,
                                          {.sequence_length = kOptions.sequence_length,
                                           .batch_sequences = 4,
                                           .max_tokens = kOptions.tokens})
                            .batch(0);
    const BatchTensors tensors = to_tensors(batch, at::kCPU);
    const ModelOutput out = model.forward(tensors.input, {.training = true});
    return model.loss(out.hidden, tensors.targets).item<double>();
  }
  std::shared_ptr<LanguageModel> initial(const std::string& method) {
    Recipe recipe = testing::small_recipe(method, 4, 16);
    recipe.model.vocab = corpus_->vocab_size();
    recipe.model.router.init_std = 0.3;
    if (method == "topk") recipe.model.router.k = 2;
    auto model = initial_model(recipe);
    model->to(at::kDouble);
    return model;
  }
  std::shared_ptr<LanguageModel> upcycled(bool renormalise, double noise) {
    UpcycleOptions how = options("vanilla");
    how.renormalise = renormalise;
    how.noise = noise;
    auto model = make(how, concat("moe-", renormalise, "-", noise));
    model->to(at::kDouble);
    return model;
  }

  std::optional<Corpus> corpus_;
};

TEST(SplitGradient, IsThatOfHandWorkedMatrices) {
  // ⟨G, W⟩ = 3·1 + 4·2 = 11, ‖W‖ = 5, ‖G‖² = 1 + 4 + 9.
  const auto split = split_gradient(torch::tensor({1.0, 2.0, 3.0, 0.0}).view({2, 2}),
                                    torch::tensor({3.0, 4.0, 0.0, 0.0}).view({2, 2}));
  EXPECT_NEAR(split.weight_norm, 5, 1e-12);
  EXPECT_NEAR(split.size, 2.2, 1e-12);
  EXPECT_NEAR(split.direction, std::sqrt(14 - 4.84), 1e-12);
  EXPECT_EQ(split_gradient(at::ones({2, 2}), at::zeros({2, 2})).direction, 2);
}

TEST_F(RouterGradients, AreDifferencesOfTheLoss) {
  for (const char* method : {"topk", "remoe"}) {
    const auto model = initial(method);
    const auto found = router_gradients(*model, *corpus_, kOptions);
    ASSERT_EQ(found.size(), 2u);
    const torch::NoGradGuard no_grad;
    for (std::size_t l = 0; l < 2; ++l) {
      const at::Tensor weight = model->moe_layers()[l]->router().scorer().fold().weight;
      at::Tensor gradient = at::zeros_like(weight);
      double* const w = weight.data_ptr<double>();
      for (std::int64_t i = 0; i < weight.numel(); ++i) {
        const double kept = w[i], step = 1e-5;
        w[i] = kept + step;
        const double above = loss(*model);
        w[i] = kept - step;
        gradient.data_ptr<double>()[i] = (above - loss(*model)) / (2 * step);
        w[i] = kept;
      }
      const auto expected = split_gradient(gradient, weight);
      const double tolerance = 1e-6 * gradient.norm().item<double>();
      EXPECT_GT(std::abs(expected.size), 100 * tolerance);
      EXPECT_NEAR(found[l].matrix->size, expected.size, tolerance) << method << l;
      EXPECT_NEAR(found[l].matrix->direction, expected.direction, tolerance) << method << l;
      EXPECT_NEAR(found[l].matrix->weight_norm, weight.norm().item<double>(), 1e-12);
    }
  }
}

TEST_F(RouterGradients, SumsAreTheGatesOfEachToken) {
  const auto model = initial("topk");
  const auto found = router_gradients(*model, *corpus_, kOptions);
  // Without dropout, a training pass computes the same as an evaluation pass.
  const Probe all = probe(*model, *corpus_, {.tokens = 64, .sequence_length = 16});
  for (std::size_t l = 0; l < 2; ++l) {
    const at::Tensor sums = all.layers[l].gates.sum(1);
    EXPECT_EQ(found[l].gate_sum.count(), 64);
    EXPECT_NEAR(found[l].gate_sum.mean(), sums.mean().item<double>(), 1e-12);
    EXPECT_NEAR(found[l].gate_sum.sd(), sums.std(0, false).item<double>(), 1e-12);
    EXPECT_NEAR(found[l].log_gate_sum.mean(), sums.log().mean().item<double>(), 1e-12);
    EXPECT_GT(*found[l].along_gate_sum, 0);
    EXPECT_LT(*found[l].along_gate_sum, 1);
  }
}

TEST_F(RouterGradients, ReachEqualExpertsThroughTheGateSumAlone) {
  const auto equal = upcycled(false, 0);
  for (const RouterGradient& layer : router_gradients(*equal, *corpus_, kOptions)) {
    EXPECT_GT(layer.logits, 1e-6);
    EXPECT_NEAR(*layer.along_gate_sum, 1, 1e-9);
  }
  const auto perturbed = upcycled(false, 0.1);
  for (const RouterGradient& layer : router_gradients(*perturbed, *corpus_, kOptions))
    EXPECT_LT(*layer.along_gate_sum, 0.999);
}

TEST_F(RouterGradients, VanishForEqualExpertsWhoseGatesSumToOne) {
  const auto scale = router_gradients(*upcycled(false, 0), *corpus_, kOptions);
  const auto equal = router_gradients(*upcycled(true, 0), *corpus_, kOptions);
  const auto perturbed = router_gradients(*upcycled(true, 0.1), *corpus_, kOptions);
  for (std::size_t l = 0; l < equal.size(); ++l) {
    EXPECT_LT(equal[l].logits, 1e-12 * scale[l].logits);
    EXPECT_LT(equal[l].matrix->direction, 1e-12 * scale[l].matrix->direction);
    EXPECT_NEAR(equal[l].gate_sum.mean(), 1, 1e-12);
    EXPECT_NEAR(equal[l].gate_sum.sd(), 0, 1e-12);
    EXPECT_GT(perturbed[l].logits, 1e-6 * scale[l].logits);
    EXPECT_EQ(*perturbed[l].along_gate_sum, 0);
  }
}

TEST_F(RouterGradients, OfPassesAreThoseOfTheWhole) {
  const auto model = initial("topk");
  // One pass takes 64 windows of 16 tokens; 80 windows take two passes.
  const auto many = router_gradients(*model, *corpus_, {.tokens = 1280, .sequence_length = 16});
  const Batch all =
      EvaluationWindows(*corpus_, Split::kTest,
                        {.sequence_length = 16, .batch_sequences = 80, .max_tokens = 1280})
          .batch(0);
  const BatchTensors tensors = to_tensors(all, at::kCPU);
  model->loss(model->forward(tensors.input, {.training = true}).hidden, tensors.targets).backward();
  for (std::size_t l = 0; l < 2; ++l) {
    const at::Tensor weight = model->moe_layers()[l]->router().scorer().fold().weight;
    const auto whole = split_gradient(
        model->moe_layers()[l]->router().scorer().parameters().front().grad(), weight);
    EXPECT_NEAR(many[l].matrix->size, whole.size, 1e-12);
    EXPECT_NEAR(many[l].matrix->direction, whole.direction, 1e-12);
  }
}

TEST_F(RouterGradients, LeaveNoTrace) {
  const auto model = initial("remoe");
  model->eval();
  std::vector<at::Tensor> before;
  for (const at::Tensor& buffer : model->buffers()) before.push_back(buffer.clone());
  const auto first = router_gradients(*model, *corpus_, kOptions);
  const auto again = router_gradients(*model, *corpus_, kOptions);
  EXPECT_EQ(first[0].logits, again[0].logits);
  EXPECT_FALSE(model->is_training());
  for (const at::Tensor& parameter : model->parameters()) EXPECT_FALSE(parameter.grad().defined());
  const auto after = model->buffers();
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(before[i].equal(after[i]));
}

TEST_F(RouterGradients, RefuseWithTheReason) {
  const auto reason = [](const std::string& method) {
    return declines_router_gradient(testing::small_recipe(method, 4, 16).model);
  };
  testing::expect_says(reason("hash"), {"'none'"});
  testing::expect_says(reason("lory"), {"'lory'"});
  EXPECT_EQ(reason("mlp"), "");
  const auto perceptron = router_gradients(*initial("mlp"), *corpus_, kOptions);
  EXPECT_FALSE(perceptron[0].matrix);
  EXPECT_TRUE(perceptron[0].along_gate_sum);
  const auto estimated = router_gradients(*initial("sparsemixer-v2"), *corpus_, kOptions);
  EXPECT_FALSE(estimated[0].along_gate_sum);
  EXPECT_TRUE(estimated[0].matrix);
}

}  // namespace
}  // namespace penstock::analysis
