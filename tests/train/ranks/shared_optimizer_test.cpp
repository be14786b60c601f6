// The optimizer of several ranks by itself: experts whose gradients come as sums over rounds, the
// global norm where ranks hold different parameters, and gradients that are not finite.
#include "penstock/train/ranks/shared_optimizer.h"

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <cmath>

#include "tests/base/error_of.h"
#include "tests/dist/ranks.h"

namespace penstock {
namespace {

constexpr OptimizerConfig kConfig{.lr = 1e-2, .weight_decay = 0.1, .clip = 0.5};
constexpr std::size_t kParts = 8;

at::Tensor start(double seed, std::int64_t size) {
  return torch::arange(size, at::kDouble).add(seed).cos();
}

class Layer : public torch::nn::Module {
 public:
  Layer() {
    dense = register_parameter("dense", start(0, 20000));
    expert = register_parameter("experts", start(1, 40000));
  }
  at::Tensor dense, expert;
};

/// Parameters that all ranks hold, and an expert.
class Shared : public torch::nn::Module {
 public:
  Shared() {
    rest = register_parameter("rest", start(2, 7));
    const auto layer = register_module("layer_0", std::make_shared<Layer>());
    dense = layer->dense;
    expert = layer->expert;
  }
  at::Tensor dense, expert, rest;
};

at::Tensor gradient(double seed, std::size_t part, const at::Tensor& like) {
  const double number = static_cast<double>(part) + 10 * seed;
  return torch::arange(like.numel(), at::kDouble)
      .mul(1.7 + number)
      .sin()
      .mul(std::exp(-number / 9));
}

/// The gradient of the experts with index `index` among those of a group of ranks.
at::Tensor expert_gradient(int index, std::size_t part, const at::Tensor& like) {
  return gradient(3.0 + index, part, like);
}

/// Two ranks hold different experts. The two other ranks hold the same experts again. A round has
/// two parts.
GradientSharing sharing_of(const dist::ProcessGroup& group, int zero) {
  GradientSharing out = GradientSharing::among(group, zero);
  out.replicas = group.split("replicas", group.rank() % 2);
  out.expert_ranks = 2;
  out.of_experts = [](const std::string& name) { return name.ends_with("experts"); };
  return out;
}

/// The results of two steps for a rank that holds the experts with index `index`.
struct Expected {
  at::Tensor dense, expert, rest;
  double norm = 0;
};

Expected expected_of(int index) {
  Shared model;
  AdamW optimizer(model, kConfig);
  Expected out;
  for (int step = 0; step < 2; ++step) {
    GradientTree parts(kParts), mine(kParts / 2), others(kParts / 2);
    for (std::size_t part = 0; part < kParts; ++part)
      parts.add({.range = {part, part + 1},
                 .gradients = {gradient(1, part, model.rest), gradient(0, part, model.dense)}});
    for (std::size_t round = 0; round < kParts / 2; ++round) {
      // Ranks 0 and 1 pass through parts 0..1 and 2..3 side by side, ranks 2 and 3 through the
      // rest.
      const std::size_t first = round / 2 * 4 + round % 2, second = first + 2;
      const auto of_round = [&](int which) {
        return expert_gradient(which, first, model.expert) +
               expert_gradient(which, second, model.expert);
      };
      mine.add({.range = {round, round + 1}, .gradients = {of_round(index)}});
      others.add({.range = {round, round + 1}, .gradients = {of_round(1 - index)}});
    }
    const auto sums = parts.take().front().gradients;
    const at::Tensor own = mine.take().front().gradients[0],
                     other = others.take().front().gradients[0];
    out.norm = std::sqrt((sums[0].square().sum() + sums[1].square().sum() + own.square().sum() +
                          other.square().sum())
                             .item<double>());
    optimizer.update({sums[0], sums[1], own}, out.norm, 1e-2);
  }
  out.dense = model.dense.detach();
  out.expert = model.expert.detach();
  out.rest = model.rest.detach();
  return out;
}

class SharedOptimizerRanks : public testing::RanksTest<> {};

TEST_F(SharedOptimizerRanks, SumsExpertsOverRoundsAndClipsByTheNormOfAll) {
  const std::vector<Expected> expected = {expected_of(0), expected_of(1)};
  EXPECT_GT(expected[0].norm, kConfig.clip);
  for (const int zero : {0, 1, 2})
    testing::on_ranks(4, [&](const dist::ProcessGroup& group) {
      const int index = group.rank() % 2;
      Shared model;
      SharedOptimizer optimizer(model, kConfig, {}, sharing_of(group, zero));
      UpdateOutcome outcome;
      for (int step = 0; step < 2; ++step) {
        optimizer.begin(kParts);
        const PartRange mine = parts_of_rank(kParts, group.rank(), 4);
        for (std::size_t part = mine.first; part < mine.last; ++part) {
          // The other rank of the expert group computes the part two before or two after.
          const std::size_t first = index == 0 ? part : part - 2;
          model.dense.mutable_grad() = gradient(0, part, model.dense);
          model.rest.mutable_grad() = gradient(1, part, model.rest);
          model.expert.mutable_grad() = expert_gradient(index, first, model.expert) +
                                        expert_gradient(index, first + 2, model.expert);
          optimizer.after_part();
        }
        optimizer.finish(true);
        outcome = optimizer.update(1e-2);
      }
      const Expected& want = expected[static_cast<std::size_t>(index)];
      EXPECT_NEAR(outcome.gradient_norm, want.norm, 1e-12 * want.norm);
      EXPECT_TRUE(torch::allclose(model.dense, want.dense, 1e-12, 1e-14)) << zero;
      EXPECT_TRUE(torch::allclose(model.expert, want.expert, 1e-12, 1e-14)) << zero;
      EXPECT_TRUE(torch::allclose(model.rest, want.rest, 1e-12, 1e-14)) << zero;
      const auto state = optimizer.state();
      EXPECT_EQ(state.count("m.layer_0.dense"), zero == 0 || group.rank() == 0 ? 1U : 0U);
      EXPECT_EQ(state.count("m.layer_0.experts"), zero == 0 || group.rank() < 2 ? 1U : 0U);
    });
}

TEST_F(SharedOptimizerRanks, CountsInTheNormWhatTheSharingSays) {
  testing::on_ranks(2, [&](const dist::ProcessGroup& group) {
    // Two ranks that share no step. Both hold `rest`, but only the first rank's counts.
    GradientSharing sharing{.tree = true, .world = group};
    sharing.counted = [&](const std::string& name) { return name != "rest" || group.rank() == 0; };
    Shared model;
    SharedOptimizer optimizer(model, kConfig, {}, sharing);
    optimizer.begin(1);
    model.dense.mutable_grad() = torch::full_like(model.dense, group.rank());
    model.expert.mutable_grad() = torch::zeros_like(model.expert);
    model.rest.mutable_grad() = torch::full_like(model.rest, 2);
    optimizer.after_part();
    optimizer.finish(true);
    EXPECT_DOUBLE_EQ(optimizer.update(0).gradient_norm, std::sqrt(20000.0 + 4 * 7));
  });
}

TEST_F(SharedOptimizerRanks, NameOnAllRanksWhatIsNotFinite) {
  for (const int zero : {0, 1, 2})
    testing::on_ranks(4, [&](const dist::ProcessGroup& group) {
      Shared model;
      SharedOptimizer optimizer(model, kConfig, {}, sharing_of(group, zero));
      optimizer.begin(4);
      for (const at::Tensor& weight : model.parameters())
        weight.mutable_grad() = torch::ones_like(weight);
      if (group.rank() == 3) model.expert.mutable_grad()[12345] = INFINITY;
      optimizer.after_part();
      optimizer.finish(true);
      const at::Tensor before = model.dense.detach().clone();
      EXPECT_EQ(optimizer.update(1e-2).failure,
                "the gradient is not finite, first in layer_0.experts");
      EXPECT_TRUE(torch::equal(model.dense, before));
    });
}

TEST_F(SharedOptimizerRanks, RefuseMomentsThatDoNotFit) {
  testing::on_ranks(2, [&](const dist::ProcessGroup& group) {
    Shared model;
    SharedOptimizer optimizer(model, kConfig, {}, GradientSharing::among(group, 1));
    testing::expect_error(
        [&] {
          optimizer.load_state({{"m.layer_0.dense", torch::zeros({6}, at::kDouble)}}, 1);
        },
        {group.rank() == 0 ? "'m.layer_0.dense' has shape [6], the model asks for "
                             "[20000]"
                           : "' is missing"});
  });
}

}  // namespace
}  // namespace penstock
