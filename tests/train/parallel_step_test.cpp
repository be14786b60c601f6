// Training shared by several ranks: the same bits as one process for every method, and one outcome
// for all where a step stops, fails or is not finite.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdlib>

#include "penstock/models/make_model.h"
#include "penstock/routers/methods.h"
#include "penstock/train/ranks/agreement.h"
#include "penstock/train/ranks/shared_optimizer.h"
#include "penstock/train/step/language_work.h"
#include "penstock/train/trainer.h"
#include "tests/dist/ranks.h"
#include "tests/train/drawn_batch.h"
#include "tests/train/report_numbers.h"
#include "tests/train/small_run.h"

namespace penstock::parallel_step_test {
namespace {

using testing::on_ranks;

constexpr std::int64_t kSteps = 3;
constexpr OptimizerConfig kOptimizer{.lr = 1e-2, .min_lr = 1e-3, .warmup_steps = 0, .clip = 0.5};

/// A model in f64. Its initial weights are large enough for routers to prefer some experts.
std::shared_ptr<LanguageModel> model_of(const std::string& method, std::int64_t layers = 2) {
  Recipe recipe = testing::small_recipe(method, 8, 16);
  recipe.model.layers = layers;
  recipe.model.vocab = 1024;  // large enough that a parameter is cut
  recipe.model.init_std = 0.2;
  if (method == "lory") recipe.model.router.parts["lory"].set("segment_length", 8);
  torch::manual_seed(5);
  auto out = make_model(recipe.model, 1);
  out->to(torch::kDouble);
  out->train();
  return out;
}

/// The results of training steps. They are compared bit for bit.
struct History {
  std::vector<double> numbers;
  std::vector<at::Tensor> state;  // weights and the balancers' state
};

History train(LanguageModel& model, const GradientSharing& sharing, std::size_t parts = 4) {
  const std::vector<std::int32_t> bytes(256, 1);
  StepEngine engine(model, kOptimizer, {}, sharing);
  const PartRange mine = parts_of_rank(parts, sharing.data.rank(), sharing.data.size());
  History out;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    std::vector<Batch> batches(parts);
    for (std::size_t p = mine.first; p < mine.last; ++p)
      batches[p] = testing::drawn_batch(step, p, 16, 256);
    LanguageWork work(model, std::move(batches), bytes);
    const StepOutcome done =
        engine.advance(work, {.total_steps = kSteps, .draw_seed = 3, .learning_rate = 1e-2});
    EXPECT_EQ(done.failure, "");
    EXPECT_GT(done.gradient_norm, kOptimizer.clip);
    EXPECT_EQ(done.ranks, sharing.world.size());
    out.numbers.insert(out.numbers.end(), {done.gradient_norm, done.report.flops});
    testing::append_numbers(out.numbers, done.report);
  }
  engine.optimizer().gather_weights();
  for (const auto& parameter : model.parameters()) out.state.push_back(parameter.detach());
  for (const auto& buffer : model.buffers()) out.state.push_back(buffer);
  return out;
}

void expect_same_bits(const History& found, const History& expected, const std::string& what) {
  EXPECT_EQ(found.numbers, expected.numbers) << what;
  ASSERT_EQ(found.state.size(), expected.state.size()) << what;
  for (std::size_t i = 0; i < found.state.size(); ++i)
    EXPECT_TRUE(torch::equal(found.state[i], expected.state[i])) << what << " tensor " << i;
}

class Ranks : public testing::RanksTest<> {};

/// Trains the same model on `ranks` ranks and compares the results with those of one process.
void expect_bits_of_one(const std::string& method, int ranks, int zero, const History& expected,
                        std::size_t parts = 4, bool overlap = true, std::int64_t layers = 2) {
  // All threads share the generator that draws initial weights.
  std::vector<std::shared_ptr<LanguageModel>> models;
  for (int rank = 0; rank < ranks; ++rank) models.push_back(model_of(method, layers));
  on_ranks(ranks, [&](const dist::ProcessGroup& group) {
    GradientSharing sharing = GradientSharing::among(group, zero);
    sharing.overlap = overlap;
    const History found = train(*models[static_cast<std::size_t>(group.rank())], sharing, parts);
    expect_same_bits(found, expected, concat(method, " on ", group.name(), ", zero ", zero));
    EXPECT_GT(group.seconds(), 0);
  });
}

TEST_F(Ranks, TrainEveryMethodToTheBitsOfOneProcess) {
  // Otherwise a fourth that covers all.
  const bool all = std::getenv("PENSTOCK_ALL_LAYOUTS") != nullptr;
  int methods = 0;
  for (const std::string& method : method_registry().names()) {
    ++methods;
    const auto alone = model_of(method);
    const History expected = train(*alone, {.tree = true});
    for (const int ranks : {2, 4})
      for (const int zero : {0, 1, 2, 3})
        if (all || (methods + ranks + zero) % 4 == 0)
          expect_bits_of_one(method, ranks, zero, expected);
  }
  EXPECT_GT(methods, 10);
}

TEST_F(Ranks, TrainPartsThatDoNotDivideEvenlyToTheSameBits) {
  for (const std::size_t parts : {3, 5, 7}) {
    const auto alone = model_of("remoe");
    const History expected = train(*alone, {.tree = true}, parts);
    for (const int ranks : {2, 3})
      for (const int zero : {0, 1, 2, 3})
        for (const bool overlap : {true, false})
          expect_bits_of_one("remoe", ranks, zero, expected, parts, overlap);
  }
}

/// While the first rank computes its second part, the second rank has no part left. There are more
/// layers than exchanges that may wait.
TEST_F(Ranks, TrainDeepModelsWithPartsThatDoNotDivideEvenly) {
  const History expected = train(*model_of("remoe", 8), {.tree = true}, 3);
  for (const int zero : {2, 3}) expect_bits_of_one("remoe", 2, zero, expected, 3, true, 8);
}

TEST_F(Ranks, AddUpToWhatOneProcessAddsInTurn) {
  for (const std::string method : {"topk", "remoe"}) {
    const auto tree = model_of(method), in_turn = model_of(method);
    const History found = train(*tree, {.tree = true}), expected = train(*in_turn, {});
    testing::expect_near(found.numbers, expected.numbers, 1e-9);
    for (std::size_t i = 0; i < found.state.size(); ++i)
      EXPECT_LT((found.state[i] - expected.state[i]).abs().max().item<double>(), 1e-9);
  }
}

/// One step on each of two ranks. The second rank calls `action` at each place of its step.
struct Ending {
  std::string thrown;  // what the step threw; "" for nothing
  StepOutcome outcome;
  bool changed = false;  // whether a weight changed
};

std::vector<Ending> endings_of(const std::function<void()>& action, bool poison = false,
                               int zero = 0, std::size_t parts = 2) {
  const std::vector<std::int32_t> bytes(256, 1);
  std::vector<Batch> batches;
  for (std::size_t p = 0; p < parts; ++p) batches.push_back(testing::drawn_batch(0, p, 16, 256));
  std::vector<std::shared_ptr<LanguageModel>> models = {model_of("remoe"), model_of("remoe")};
  std::vector<Ending> out(2);
  const auto step = [&](const dist::ProcessGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    LanguageModel& model = *models[rank];
    if (rank == 1 && poison) {
      const torch::NoGradGuard no_grad;
      model.parameters()[0].fill_(NAN);
    }
    const at::Tensor before = model.parameters()[3].detach().clone();
    StepEngine engine(model, kOptimizer, {}, GradientSharing::among(group, zero));
    LanguageWork work(model, batches, bytes);
    Ending& ending = out[rank];
    try {
      ending.outcome =
          engine.advance(work, {.total_steps = 1, .learning_rate = 1e-2}, [&](const StepPlace&) {
            if (rank == 1 && action) action();
          });
    } catch (const StepStopped& stop) {
      ending.thrown = concat("stopped by ", stop.signal());
    } catch (const ReportedByRankZero&) {
      ending.thrown = "reported";
    } catch (const Error& error) {
      ending.thrown = error.what();
    }
    engine.optimizer().gather_weights();
    ending.changed = !torch::equal(before, model.parameters()[3]) || engine.step() != 0;
    group.barrier("still in step");
  };
  // With one copy of the weights, all ranks would have the NaN.
  on_ranks(2, step, {.shared_memory = !poison, .check = true});
  return out;
}

/// With two parts for each rank, the first rank starts exchanges and gathers weights of layers that
/// the second rank does not use.
TEST_F(Ranks, StopTogether) {
  for (const int zero : {0, 1, 2, 3})
    for (const std::size_t parts : {2, 4})
      for (const Ending& ending : endings_of([] { throw StepStopped(15); }, false, zero, parts)) {
        EXPECT_EQ(ending.thrown, "stopped by 15");
        EXPECT_FALSE(ending.changed);
      }
}

TEST_F(Ranks, StopTogetherAlsoInTheMiddleOfABackwardPass) {
  for (const int zero : {0, 1, 2, 3}) {
    int calls = 0;  // of the second rank: two layers and the head forward, then backward
    const auto stop = [&] {
      if (++calls == 6) throw StepStopped(15);
    };
    for (const Ending& ending : endings_of(stop, false, zero)) {
      EXPECT_EQ(ending.thrown, "stopped by 15");
      EXPECT_FALSE(ending.changed);
    }
    EXPECT_EQ(calls, 6);
  }
}

TEST_F(Ranks, FailTogetherAndNameTheOne) {
  for (const int zero : {0, 1, 2, 3}) {
    const auto endings = endings_of([] { fail("the disk is gone"); }, false, zero);
    EXPECT_TRUE(endings[0].thrown.starts_with("rank 1 on ")) << endings[0].thrown;
    EXPECT_TRUE(endings[0].thrown.ends_with(": the disk is gone")) << endings[0].thrown;
    EXPECT_EQ(endings[1].thrown, "reported");
    for (const Ending& ending : endings) EXPECT_FALSE(ending.changed);
  }
}

TEST_F(Ranks, SkipTogetherWhatIsNotFiniteOnOne) {
  for (const int zero : {0, 1, 2, 3}) {
    const auto endings = endings_of({}, true, zero);
    for (const Ending& ending : endings) {
      EXPECT_EQ(ending.outcome.failure, endings[0].outcome.failure);
      EXPECT_NE(ending.outcome.failure.find("the loss is"), std::string::npos)
          << ending.outcome.failure;
      EXPECT_FALSE(ending.changed);
    }
  }
}

}  // namespace
}  // namespace penstock::parallel_step_test
