// Ranks that train apart and meet in outer steps: the outer optimizer's formula, and an engine's
// steps compared with steps by hand.
#include "penstock/train/ranks/outer_optimizer.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "penstock/models/formats/tensor_names.h"
#include "penstock/models/make_model.h"
#include "penstock/train/ranks/shared_optimizer.h"
#include "penstock/train/step/language_work.h"
#include "penstock/train/step/step.h"
#include "tests/base/error_of.h"
#include "tests/dist/ranks.h"
#include "tests/train/drawn_batch.h"
#include "tests/train/small_run.h"

namespace penstock::outer_steps {
namespace {

using testing::on_ranks;

constexpr OptimizerConfig kOptimizer{.lr = 1e-2, .min_lr = 1e-3, .warmup_steps = 0, .clip = 0.5};
constexpr std::size_t kParts = 4;

at::Tensor f64(const std::vector<double>& values) { return torch::tensor(values, at::kDouble); }

/// The expected numbers come from outer_optimizer_numbers.py.
TEST(OuterOptimizer, IsSgdWithNesterovMomentum) {
  const at::Tensor weight = f64({1, -2, 0.5});
  OuterOptimizer outer({{.name = "w", .weight = weight}}, {}, {.steps = 2});
  const std::vector<at::Tensor> ways = {f64({0.1, -0.2, 0.3}), f64({0.05, 0.1, -0.1}),
                                        f64({-0.2, 0, 0.1})};
  const std::vector<at::Tensor> expected = {f64({0.867, -1.734, 0.101}),
                                            f64({0.7438, -1.7536, 0.0639}),
                                            f64({0.93042, -1.70824, -0.16549})};
  for (std::size_t i = 0; i < ways.size(); ++i) {
    weight.sub_(ways[i]);
    outer.step();
    EXPECT_LT((weight - expected[i]).abs().max().item<double>(), 1e-15) << i << weight;
    EXPECT_TRUE(torch::equal(outer.shared_weights().at("w"), weight));
  }
  const auto state = outer.state({{"m.w", weight}, {"v.w", weight}}, 6);
  EXPECT_EQ(state.size(), 3U);
  const at::Tensor momentum = f64({-0.074, -0.072, 0.253});
  EXPECT_LT((state.at("outer.momentum.w") - momentum).abs().max().item<double>(), 1e-15);
}

TEST(OuterOptimizer, RefusesAStateThatDoesNotFit) {
  const at::Tensor weight = f64({1, -2, 0.5}), short_one = f64({1});
  OuterOptimizer outer({{.name = "w", .weight = weight}}, {}, {.steps = 2});
  const std::map<std::string, at::Tensor> whole = {{"outer.momentum.w", weight},
                                                   {"outer.rank.0.m.w", weight},
                                                   {"outer.rank.0.v.w", weight},
                                                   {"outer.rank.0.w.w", weight}};
  const auto said = [&](const std::string& name, const at::Tensor& value) {
    auto state = whole;
    state.erase(name);
    if (value.defined()) state[name] = value;
    return testing::error_or("accepted", [&] { outer.load(state, 1); });
  };
  for (const auto& [name, value] : whole) {
    EXPECT_EQ(said(name, value), "accepted");
    EXPECT_EQ(said(name, {}), concat("optimizer state: '", name, "' is missing"));
    EXPECT_EQ(said(name, short_one),
              concat("optimizer state: '", name, "' has shape [1], the model asks for [3]"));
  }
}

std::shared_ptr<LanguageModel> model_of(const std::string& method, at::ScalarType type) {
  Recipe recipe = testing::small_recipe(method, 8, 16);
  recipe.model.vocab = 1024;  // large enough that a parameter is cut
  recipe.model.init_std = 0.2;
  auto out = make_model(recipe.model, 1);
  out->to(type);
  out->train();
  return out;
}

/// A step over the parts [first, first + count), of which this rank computes `mine`.
StepOutcome step_of(StepEngine& engine, LanguageModel& model, std::size_t first, std::size_t count,
                    PartRange mine) {
  const std::vector<std::int32_t> bytes(1024, 1);
  std::vector<Batch> batches(count);
  for (std::size_t part = mine.first; part < mine.last; ++part)
    batches[part] = testing::drawn_batch(engine.step(), first + part, 16, 1024);
  LanguageWork work(model, std::move(batches), bytes);
  return engine.advance(work, {.total_steps = 9, .draw_seed = 3, .learning_rate = 1e-2});
}

std::vector<at::Tensor> state_of(const LanguageModel& model) {
  std::vector<at::Tensor> out;
  for (const auto& [name, value] : held_tensors(model)) out.push_back(value.detach().clone());
  return out;
}

void expect_same_bits(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& wanted,
                      const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(torch::equal(found[i], wanted[i])) << what << " tensor " << i;
}

/// The phases of two ranks by hand. Each rank is an engine of one process over its own two parts.
/// The outer steps are operations on plain tensors.
class ByHand {
 public:
  ByHand() : shared_(state_of(*models_[0])) {
    for (const auto& model : models_)
      engines_.push_back(
          std::make_unique<StepEngine>(*model, kOptimizer, LrScale(), GradientSharing{}));
    for (const at::Tensor& weight : shared_) momentum_.push_back(torch::zeros_like(weight));
  }
  void step() {
    norm_ = 0;
    for (std::size_t rank = 0; rank < 2; ++rank)
      norm_ += step_of(*engines_[rank], *models_[rank], 2 * rank, 2, {0, 2}).gradient_norm / 2;
  }
  void outer_step() {
    const torch::NoGradGuard no_grad;
    const auto first = held_tensors(*models_[0]), second = held_tensors(*models_[1]);
    std::size_t i = 0;
    for (auto [name, one] : first) {
      at::Tensor other = second.at(name);
      const at::Tensor way = shared_[i] - (one + other) / 2;
      momentum_[i] = 0.9 * momentum_[i] + way;
      shared_[i] = shared_[i] - 0.7 * (way + 0.9 * momentum_[i]);
      one.copy_(shared_[i]);
      other.copy_(shared_[i++]);
    }
  }
  const LanguageModel& model(int rank) const { return *models_[static_cast<std::size_t>(rank)]; }
  double norm() const { return norm_; }

 private:
  std::vector<std::shared_ptr<LanguageModel>> models_ = {model_of("topk", at::kDouble),
                                                         model_of("topk", at::kDouble)};
  std::vector<std::unique_ptr<StepEngine>> engines_;
  std::vector<at::Tensor> shared_, momentum_;
  double norm_ = 0;
};

class OuterOptimizerRanks : public testing::RanksTest<> {};

GradientSharing apart_sharing(const dist::ProcessGroup& group, const LocalSteps& local) {
  GradientSharing out = GradientSharing::among(group);
  out.local = local;
  return out;
}

TEST_F(OuterOptimizerRanks, TrainApartAndComeTogether) {
  constexpr std::int64_t kSteps = 7, kLocal = 3;
  std::vector<std::vector<std::vector<at::Tensor>>> found(2);  // by rank and step
  std::vector<double> norms;
  on_ranks(2, [&](const dist::ProcessGroup& group) {
    const auto model = model_of("topk", at::kDouble);
    StepEngine engine(*model, kOptimizer, {}, apart_sharing(group, {.steps = kLocal}));
    const PartRange mine = parts_of_rank(kParts, group.rank(), 2);
    for (std::int64_t step = 1; step <= kSteps; ++step) {
      const StepOutcome outcome = step_of(engine, *model, 0, kParts, mine);
      EXPECT_EQ(outcome.failure, "");
      EXPECT_EQ(outcome.outer_step, step % kLocal == 0 ? step / kLocal : 0);
      EXPECT_EQ(engine.apart(), step % kLocal != 0);
      if (group.rank() == 0) norms.push_back(outcome.gradient_norm);
      found[static_cast<std::size_t>(group.rank())].push_back(state_of(*model));
    }
  });
  ByHand hand;
  for (std::size_t step = 1; step <= kSteps; ++step) {
    hand.step();
    const bool outer = step % kLocal == 0;
    if (outer) hand.outer_step();
    EXPECT_NEAR(norms[step - 1], hand.norm(), 1e-12 * hand.norm());
    for (const int rank : {0, 1}) {
      const auto& mine = found[static_cast<std::size_t>(rank)][step - 1];
      const auto wanted = state_of(hand.model(rank));
      if (step < kLocal) expect_same_bits(mine, wanted, concat("rank ", rank, ", step ", step));
      for (std::size_t i = 0; i < mine.size(); ++i)
        EXPECT_LT((mine[i] - wanted[i]).abs().max().item<double>(), 1e-11) << step << " " << i;
    }
    bool same = true;
    for (std::size_t i = 0; i < found[0][step - 1].size(); ++i)
      same = same && torch::equal(found[0][step - 1][i], found[1][step - 1][i]);
    EXPECT_EQ(same, outer) << step;
  }
}

TEST_F(OuterOptimizerRanks, HaveOneLambdaInEveryStep) {
  for (const std::string method : {"remoe", "loss-free"}) {
    std::vector<std::vector<std::vector<at::Tensor>>> found(3);
    std::vector<std::vector<double>> sparsity(3);
    on_ranks(3, [&](const dist::ProcessGroup& group) {
      const auto rank = static_cast<std::size_t>(group.rank());
      const auto model = model_of(method, at::kDouble);
      StepEngine engine(*model, kOptimizer, {}, apart_sharing(group, {.steps = 4}));
      for (int step = 0; step < 6; ++step) {
        const PartRange mine = parts_of_rank(kParts, group.rank(), 3);
        sparsity[rank].push_back(step_of(engine, *model, 0, kParts, mine).report.sparsity);
        auto& buffers = found[rank].emplace_back();
        for (const at::Tensor& buffer : model->buffers()) buffers.push_back(buffer.clone());
      }
    });
    EXPECT_EQ(sparsity[1], sparsity[0]) << method;
    EXPECT_EQ(sparsity[2], sparsity[0]) << method;
    for (std::size_t step = 0; step < 6; ++step) {
      ASSERT_FALSE(found[0][step].empty());
      expect_same_bits(found[1][step], found[0][step], method);
      expect_same_bits(found[2][step], found[0][step], method);
    }
    EXPECT_FALSE(torch::equal(found[0][5].front(), found[0][0].front()))
        << method << ": the weights did not change";
  }
}

TEST(OuterOptimizer, OfOneRankWithoutMomentumIsPlainTraining) {
  for (const std::string method : {"dense", "topk", "remoe"})
    for (const at::ScalarType type : {at::kFloat, at::kDouble})
      for (const bool tree : {false, true}) {
        const auto plain = model_of(method, type), local = model_of(method, type);
        StepEngine usual(*plain, kOptimizer, {}, {.tree = tree});
        GradientSharing sharing{.tree = tree};
        sharing.local = {.steps = 3, .lr = 1, .momentum = 0};
        StepEngine apart(*local, kOptimizer, {}, sharing);
        for (int step = 0; step < 7; ++step) {
          const double norm = step_of(usual, *plain, 0, kParts, {0, kParts}).gradient_norm;
          EXPECT_EQ(step_of(apart, *local, 0, kParts, {0, kParts}).gradient_norm, norm);
          expect_same_bits(state_of(*local), state_of(*plain), method);
        }
      }
}

TEST_F(OuterOptimizerRanks, ShareEachStepWhereThereIsOneLocalStep) {
  const auto history = [](const LocalSteps& local) {
    std::vector<at::Tensor> out;
    on_ranks(2, [&](const dist::ProcessGroup& group) {
      const auto model = model_of("remoe", at::kDouble);
      StepEngine engine(*model, kOptimizer, {}, apart_sharing(group, local));
      for (int step = 0; step < 3; ++step) {
        const PartRange mine = parts_of_rank(kParts, group.rank(), 2);
        EXPECT_EQ(step_of(engine, *model, 0, kParts, mine).outer_step, 0);
      }
      if (group.rank() == 0) out = state_of(*model);
    });
    return out;
  };
  expect_same_bits(history({.steps = 1, .lr = 0.3, .momentum = 0.1}), history({}),
                   "one local step");
}

TEST_F(OuterOptimizerRanks, UpdateNoneWhereOneHasAGradientThatIsNotFinite) {
  on_ranks(2, [&](const dist::ProcessGroup& group) {
    const auto model = model_of("topk", at::kDouble);
    if (group.rank() == 1)
      for (auto& item : model->named_parameters())
        if (item.key().find("layer_1") != std::string::npos)
          item.value().register_hook([](const at::Tensor& gradient) { return gradient * NAN; });
    const std::vector<at::Tensor> before = state_of(*model);
    StepEngine engine(*model, kOptimizer, {}, apart_sharing(group, {.steps = 3}));
    const StepOutcome outcome =
        step_of(engine, *model, 0, kParts, parts_of_rank(kParts, group.rank(), 2));
    EXPECT_TRUE(outcome.failure.starts_with("the gradient is not finite, first in layer_1."))
        << outcome.failure;
    testing::expect_says(outcome.failure, {", on rank 1 on "});
    EXPECT_EQ(engine.step(), 0);
    expect_same_bits(state_of(*model), before, group.name());
  });
}

}  // namespace
}  // namespace penstock::outer_steps
