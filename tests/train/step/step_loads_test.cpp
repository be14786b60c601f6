// Balance losses over the micro-batches and ranks of a step: a mean, which the number of
// micro-batches and ranks does not scale. With scope = "global", the loss is that of the whole
// batch however it is cut.
#include "penstock/train/step/step_loads.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <chrono>
#include <string>

#include "penstock/base/random.h"
#include "penstock/dist/transport.h"
#include "penstock/models/make_model.h"
#include "penstock/train/step/accumulate.h"
#include "penstock/train/step/language_work.h"
#include "tests/dist/message_of.h"
#include "tests/dist/ranks.h"
#include "tests/train/small_run.h"

namespace penstock::step_loads {
namespace {

using testing::on_ranks;

constexpr std::int64_t kLength = 16;

/// Rows [first, first + rows) of sixteen tokens each.
Batch rows_of(std::uint64_t first, std::int64_t rows) {
  Batch out{.sequences = rows, .length = kLength};
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(rows * kLength); ++i) {
    const auto draw = [&](std::uint64_t stream) {
      return static_cast<std::int64_t>(
          random_below(random_bits(9, stream, first * kLength + i), 256));
    };
    out.inputs.push_back(draw(0));
    out.targets.push_back(draw(1));
    out.domains.push_back(0);
  }
  return out;
}

/// Eight rows in `parts` micro-batches of equal size.
std::vector<Batch> cut(std::size_t parts) {
  std::vector<Batch> out;
  const std::int64_t rows = 8 / static_cast<std::int64_t>(parts);
  for (std::size_t part = 0; part < parts; ++part)
    out.push_back(rows_of(part * static_cast<std::uint64_t>(rows), rows));
  return out;
}

/// A router with one balancer. The report contains the balancer's loss.
struct Router {
  std::string scorer, selector, balancer;
  std::map<std::string, ConfigNode::Value> options;  // the balancer's options

  std::string name() const {
    const auto scope = options.find("scope");
    return balancer + (scope == options.end() ? "" : " " + std::get<std::string>(scope->second));
  }
};

std::vector<Router> routers_of(const std::string& scope) {
  std::map<std::string, ConfigNode::Value> of_scope = {{"scope", scope}};
  if (scope == "device") of_scope["devices"] = std::int64_t{2};
  auto balance = of_scope, l1 = of_scope;
  balance["coefficient"] = 0.5;
  l1["initial"] = 0.25;
  return {{"linear", "topk", "load-balance", balance}, {"linear", "relu", "adaptive-l1", l1}};
}

std::shared_ptr<LanguageModel> model_of(const Router& router) {
  Recipe recipe = testing::small_recipe("topk", 8, kLength);
  recipe.model.vocab = 256;
  recipe.model.init_std = 0.2;
  recipe.model.router.scorer = router.scorer;
  recipe.model.router.selector = router.selector;
  recipe.model.router.balancers = std::vector<std::string>{router.balancer};
  for (const auto& [key, value] : router.options)
    recipe.model.router.parts[router.balancer].set(key, value);
  auto out = make_model(recipe.model, 1);
  out->to(torch::kDouble);
  out->train();
  return out;
}

struct Seen {
  double auxiliary = 0;
  std::vector<at::Tensor> gradients;
};

/// The gradients of one step. With several ranks, this rank's part of them.
Seen accumulated(const Router& router, std::vector<Batch> batches,
                 const dist::ProcessGroup& group = {}) {
  const std::vector<std::int32_t> bytes(256, 1);
  const auto model = model_of(router);
  LanguageWork work(*model, std::move(batches), bytes);
  std::vector<ModelMemory> memory;
  const StepReport report = accumulate(work, {.step = 0, .total_steps = 1, .training = true}, 3,
                                       memory, {}, {.data = group, .world = group});
  EXPECT_EQ(report.non_finite, "");
  Seen out;
  for (const auto& [name, value] : report.auxiliary_losses) out.auxiliary += value;
  for (const auto& parameter : model->parameters()) out.gradients.push_back(parameter.grad());
  return out;
}

/// The largest difference between two gradients.
double difference(const Seen& a, const Seen& b) {
  double out = 0;
  for (std::size_t i = 0; i < a.gradients.size(); ++i)
    out = std::max(out, (a.gradients[i] - b.gradients[i]).abs().max().item<double>());
  return out;
}

TEST(StepLoads, GlobalScopeIsThatOfTheBatchHoweverItIsCut) {
  for (const Router& router : routers_of("global")) {
    const Seen whole = accumulated(router, cut(1));
    for (const std::size_t parts : {2, 4, 8}) {
      const Seen found = accumulated(router, cut(parts));
      EXPECT_NEAR(found.auxiliary, whole.auxiliary, 1e-13) << router.name() << parts;
      EXPECT_LT(difference(found, whole), 1e-13) << router.name() << parts;
    }
  }
  for (const Router& router : routers_of("micro-batch"))
    EXPECT_GT(difference(accumulated(router, cut(4)), accumulated(router, cut(1))), 1e-5);
}

TEST(StepLoads, SequenceScopeDoesNotDependOnTheCutEither) {
  for (const Router& router : routers_of("sequence")) {
    const Seen whole = accumulated(router, cut(1)), found = accumulated(router, cut(4));
    EXPECT_NEAR(found.auxiliary, whole.auxiliary, 1e-13) << router.name();
    EXPECT_LT(difference(found, whole), 1e-13) << router.name();
  }
}

TEST(StepLoads, GlobalScopeIsTheSameOverRanks) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  for (const Router& router : routers_of("global")) {
    const Seen whole = accumulated(router, cut(1));
    on_ranks(4, [&](const dist::ProcessGroup& group) {
      Seen found = accumulated(router, cut(8), group);
      for (at::Tensor& gradient : found.gradients) group.all_reduce(gradient, dist::Reduction::sum);
      EXPECT_NEAR(found.auxiliary, whole.auxiliary, 1e-13) << router.name();
      EXPECT_LT(difference(found, whole), 1e-13) << router.name();
    });
  }
}

TEST(StepLoads, NoBalanceLossGrowsWithMicroBatchesOrRanks) {
  std::vector<Router> routers = {{"linear", "topk", "z-loss", {{"coefficient", 0.1}}},
                                 {"linear", "topk", "importance", {{"coefficient", 0.1}}},
                                 {"grouped-mean", "topk", "locality", {{"coefficient", 0.1}}}};
  for (const char* scope : {"micro-batch", "sequence", "global", "device"})
    for (const Router& router : routers_of(scope)) routers.push_back(router);
  for (const Router& router : routers) {
    const auto copies = [](std::size_t parts) { return std::vector(parts, rows_of(0, 2)); };
    const double once = accumulated(router, copies(1)).auxiliary;
    EXPECT_GT(once, 1e-3) << router.name();
    for (const std::size_t parts : {2, 8})
      EXPECT_NEAR(accumulated(router, copies(parts)).auxiliary, once, 1e-13) << router.name();
    if (!dist::has_transport()) continue;
    on_ranks(2, [&](const dist::ProcessGroup& group) {
      EXPECT_NEAR(accumulated(router, copies(4), group).auxiliary, once, 1e-13) << router.name();
    });
  }
}

TEST(StepLoads, AFailureOnOneRankIsThrownOnAll) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  const Router router = routers_of("global").front();
  on_ranks(2, [&](const dist::ProcessGroup& group) {
    std::vector<Batch> batches = cut(4);
    if (group.rank() == 1) batches[3].inputs[0] = 4000;  // no such token
    EXPECT_ANY_THROW(accumulated(router, std::move(batches), group)) << group.name();
    group.barrier("still in step");
  });
}

/// Work whose passes make an operation with the other ranks.
class ExchangingWork : public LanguageWork {
 public:
  using LanguageWork::LanguageWork;
  void replay(const PartInput&, const HiddenTap&) override {
    group.all_reduce(torch::zeros({2}), dist::Reduction::sum);
  }
  dist::ProcessGroup group;
};

TEST(StepLoads, ALostRankIsNoFailureOfTheRankThatLosesIt) {
  if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  const auto model = model_of(routers_of("global").front());
  const auto failures = testing::failures_on_ranks(
      2,
      [&](const dist::ProcessGroup& group) {
        if (group.rank() == 1) return;
        const std::vector<std::int32_t> bytes(256, 1);
        ExchangingWork work(*model, cut(2), bytes);
        work.group = group;
        count_step(work, {.training = true}, 3, std::vector<ModelMemory>(2), {.peers = {group}});
      },
      {.timeout = std::chrono::seconds(60)});
  const std::string said = testing::message_of(failures[0]);
  EXPECT_TRUE(said.starts_with("rank 0 on " + dist::host_name() + " lost another rank in "))
      << said;
}

}  // namespace
}  // namespace penstock::step_loads
