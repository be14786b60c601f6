// A step's gradient under accumulation, and the engine's messages on values that are not finite.
#include "penstock/train/step/step.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "penstock/base/random.h"
#include "penstock/models/batch_tensors.h"
#include "penstock/models/make_model.h"
#include "penstock/train/step/language_work.h"
#include "tests/train/gradients.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

constexpr std::uint64_t kDrawSeed = 9;

Batch batch_of(std::int64_t sequences, std::uint64_t seed) {
  Batch out{.sequences = sequences, .length = 8};
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(sequences) * 8; ++i) {
    out.inputs.push_back(static_cast<std::int64_t>(random_below(random_bits(seed, 0, i), 256)));
    out.targets.push_back(static_cast<std::int64_t>(random_below(random_bits(seed, 1, i), 256)));
    out.domains.push_back(0);
  }
  return out;
}

double distance(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double squares = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    squares += (a[i] - b[i]).square().sum().item<double>();
    norm += b[i].square().sum().item<double>();
  }
  return std::sqrt(squares / norm);
}

class AccumulatedStep : public ::testing::Test {
 protected:
  /// Makes a model whose routers prefer some experts, and in which the loss of `part` is large.
  void make(const std::string& method, const std::string& part, const std::string& option,
            double value = 3) {
    Recipe recipe = testing::small_recipe(method, 6, 8);
    recipe.model.vocab = 256;
    recipe.model.init_std = 0.3;
    recipe.model.router.parts[part].set(option, value);
    torch::manual_seed(5);
    model_ = make_model(recipe.model, 1);
    model_->to(torch::kDouble);
    model_->train();
  }
  StepReport accumulate_over(const std::vector<Batch>& batches) {
    const std::vector<std::int32_t> bytes(256, 1);
    std::vector<ModelMemory> memory;
    LanguageWork work(*model_, batches, bytes);
    return accumulate(work, context_, kDrawSeed, memory);
  }
  /// The gradients of the mean over the micro-batches of cross-entropy and auxiliary losses, by one
  /// backward pass.
  std::vector<at::Tensor> gradients_by_hand(const std::vector<Batch>& batches) {
    at::Tensor objective = torch::zeros({}, torch::kDouble);
    for (std::size_t m = 0; m < batches.size(); ++m) {
      const BatchTensors tensors = to_tensors(batches[m], at::kCPU);
      context_.generator = at::detail::createCPUGenerator(mix64(kDrawSeed + m));
      const ModelOutput out = model_->forward(tensors.input, context_);
      EXPECT_TRUE(out.auxiliary_loss.defined());
      objective = objective + (model_->loss(out.hidden, tensors.targets) + out.auxiliary_loss) /
                                  static_cast<double>(batches.size());
    }
    objective.backward();
    return testing::gradients(*model_);
  }

  std::shared_ptr<LanguageModel> model_;
  RoutingContext context_{.total_steps = 10, .training = true};
};

TEST_F(AccumulatedStep, IsTheMeanOfTheMicroBatchesObjectivesWithTheirAuxiliaryLosses) {
  const std::vector<std::vector<std::string>> routers = {{"vanilla", "z-loss", "coefficient"},
                                                         {"remoe", "adaptive-l1", "initial"},
                                                         {"noisy-topk", "load", "coefficient"}};
  for (const auto& router : routers) {
    const std::string& method = router[0];
    make(method, router[1], router[2]);
    const std::vector<Batch> batches = {batch_of(2, 1), batch_of(2, 2), batch_of(2, 3)};
    const StepReport report = accumulate_over(batches);
    const std::vector<at::Tensor> measured = testing::gradients(*model_);
    EXPECT_LT(distance(measured, gradients_by_hand(batches)), 1e-10) << method;
    double auxiliary = 0;
    for (const auto& [part, loss] : report.auxiliary_losses) auxiliary += loss;
    // Large enough that the distance would show a wrong weight.
    EXPECT_GT(auxiliary, 0.05) << method;
    EXPECT_NEAR(report.total_loss, report.loss + auxiliary, 1e-9) << method;
  }
}

TEST_F(AccumulatedStep, TakesBalancingCountsMicroBatchByMicroBatch) {
  make("topk", "load-balance", "coefficient");
  const std::vector<Batch> parts = {batch_of(2, 1), batch_of(2, 2), batch_of(2, 3)};
  Batch whole{.sequences = 6, .length = 8};
  for (const Batch& part : parts) {
    whole.inputs.insert(whole.inputs.end(), part.inputs.begin(), part.inputs.end());
    whole.targets.insert(whole.targets.end(), part.targets.begin(), part.targets.end());
    whole.domains.insert(whole.domains.end(), part.domains.begin(), part.domains.end());
  }
  const double by_parts = accumulate_over(parts).auxiliary_losses.at("load-balance");
  const std::vector<at::Tensor> of_parts = testing::gradients(*model_);
  const double at_once = accumulate_over({whole}).auxiliary_losses.at("load-balance");
  EXPECT_GT(distance(of_parts, testing::gradients(*model_)), 1e-3);
  EXPECT_GT(std::fabs(by_parts - at_once), 1e-3);
}

/// All logits are 0, so no expert is active. With a leak each expert is still computed for some
/// tokens. They are no load, but they take FLOPs.
TEST_F(AccumulatedStep, CountsALeaksTokensAsFlopsAlone) {
  const auto step = [&](double leak) {
    make("remoe", "relu", "leak", leak);
    {
      torch::NoGradGuard no_grad;
      for (auto& item : model_->named_parameters())
        if (item.key().find("router.scorer") != std::string::npos) item.value().zero_();
    }
    return accumulate_over({batch_of(2, 1)});
  };
  const StepReport without = step(0), with = step(0.5);
  double largest = 0;
  for (const auto& item : model_->named_parameters())
    if (item.key().find("router.scorer") != std::string::npos)
      largest = std::max(largest, item.value().grad().abs().max().item<double>());
  EXPECT_GT(largest, 0);  // the leak was there
  EXPECT_EQ(with.sparsity, 1);
  EXPECT_EQ(with.sparsity_by_layer, (std::vector<double>{1, 1}));
  EXPECT_EQ(with.active_experts, 0);
  EXPECT_EQ(with.load, (std::vector<std::vector<double>>(2, std::vector<double>(4, 0))));
  // Each of the 4 experts of 2 layers computes 4 tokens, by three matrices of 32 x 48, forward and
  // twice backward.
  EXPECT_DOUBLE_EQ(with.flops - without.flops, 3. * 2 * (2 * 4 * 4) * (3 * 32 * 48));
  EXPECT_EQ(with.loss, without.loss);
}

TEST_F(AccumulatedStep, SaysInWordsThatALossIsNotANumber) {
  make("topk", "load-balance", "coefficient");
  for (const double sign : {1.0, -1.0}) {
    {
      torch::NoGradGuard no_grad;
      for (auto& item : model_->named_parameters())
        if (item.key().find("lm_head") != std::string::npos)
          item.value().fill_(std::copysign(NAN, sign));
    }
    EXPECT_EQ(accumulate_over({batch_of(2, 1)}).non_finite,
              "the loss is not a number, first seen in the output head or an auxiliary loss");
  }
}

}  // namespace
}  // namespace penstock
