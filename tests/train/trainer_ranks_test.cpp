// Trainers of several ranks: runs that continue with any number of ranks, and what keeps ranks
// alike.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "penstock/models/formats/tensor_names.h"
#include "penstock/train/layouts/parallel_settings.h"
#include "penstock/train/ranks/agreement.h"
#include "penstock/train/read_recipe.h"
#include "penstock/train/trainer.h"
#include "tests/base/error_of.h"
#include "tests/dist/ranks.h"
#include "tests/train/agreed_error.h"
#include "tests/train/small_run.h"
#include "tests/train/trainer_state.h"

namespace penstock {
namespace {

using testing::on_ranks;
using testing::state_of;
using testing::TrainerState;

class TrainerRanks : public testing::SmallCorpusTest<testing::RanksTest<>> {
 protected:
  /// With transformer-xl the recipe has memory and dropout. The memory of a part is on the rank
  /// that computes the part.
  Recipe recipe(const std::string& architecture) const {
    ConfigNode node = testing::small_recipe_node("topk", 8, 16, "unused");
    node.set("model.architecture", architecture);
    if (architecture == "transformer-xl") node.set("model.transformer_xl.dropout", 0.1);
    node.set("train.micro_batch", 2);
    node.set("train.gradient_sum", "tree");
    return read_recipe(node);
  }
  std::unique_ptr<Trainer> trainer(const Recipe& recipe, const dist::ProcessGroup& group = {}) {
    return std::make_unique<Trainer>(recipe, *corpus_,
                                     dist::make_mesh(group, {.data = group.size()}));
  }

  /// A recipe whose ranks divide the model.
  Recipe divided(const std::string& method, const ParallelConfig& parallel) const {
    ConfigNode node = testing::small_recipe_node(method, 8, 16, "unused");
    node.set("train.micro_batch", 2);
    node.set("train.gradient_sum", "tree");
    Recipe out = read_recipe(node);
    out.parallel = parallel;
    return out;
  }
  std::unique_ptr<Trainer> divided_trainer(const Recipe& recipe,
                                           const dist::ProcessGroup& group) const {
    return std::make_unique<Trainer>(recipe, *corpus_,
                                     dist::make_mesh(group, layout_of(recipe, group.size())));
  }

  static void expect_equal(const TrainerState& found, const TrainerState& expected,
                           bool with_moments = true) {
    EXPECT_EQ(found.step, expected.step);
    testing::expect_equal(found.model, expected.model);
    if (with_moments) testing::expect_equal(found.optimizer, expected.optimizer);
  }

  /// Expects that six steps of one process equal those of several ranks, also if the number of
  /// ranks changes after the third step.
  void expect_any_number(const Recipe& recipe, const std::vector<std::pair<int, int>>& ranks_zero) {
    const auto straight = trainer(recipe);
    TrainerState middle;
    while (straight->step() < 6) {
      if (straight->step() == 3) middle = state_of(*straight);
      straight->advance();
    }
    const TrainerState end = state_of(*straight);
    for (const auto& [ranks, zero] : ranks_zero) {
      TrainerState shared_middle;
      Recipe shared = recipe, later = recipe;
      shared.parallel.zero = zero;
      later.parallel.zero = 3 - zero;  // a run continues with any value of zero
      on_ranks(ranks, [&](const dist::ProcessGroup& group) {
        const auto mine = trainer(shared, group);
        while (mine->step() < 3) mine->advance();
        const TrainerState state = state_of(*mine);
        expect_equal(state, middle, zero == 0 || group.rank() == 0);
        if (group.rank() == 0) shared_middle = state;
      });
      on_ranks(ranks, [&](const dist::ProcessGroup& group) {
        const auto mine = trainer(later, group);
        if (group.rank() == 0)
          testing::restore(*mine, middle);
        else
          mine->restore(0, {}, {}, "");
        while (mine->step() < 6) mine->advance();
        expect_equal(state_of(*mine), end, later.parallel.zero == 0 || group.rank() == 0);
      });
      const auto alone = trainer(recipe);
      testing::restore(*alone, shared_middle);
      while (alone->step() < 6) alone->advance();
      expect_equal(state_of(*alone), end);
    }
  }
};

TEST_F(TrainerRanks, GoOnWithAnyNumberFromWhatACheckpointHolds) {
  for (const std::string architecture : {"decoder", "transformer-xl"})
    expect_any_number(recipe(architecture), {{2, 0}, {4, 1}, {2, 2}, {4, 3}});
}

TEST_F(TrainerRanks, GoOnWithMomentsInBf16FromWhatACheckpointHolds) {
  Recipe halves = recipe("decoder");
  halves.train.optimizer.moments = Moments::bf16;
  expect_any_number(halves, {{2, 0}, {4, 1}, {4, 3}});
  for (const auto& [name, value] : state_of(*trainer(halves)).optimizer)
    EXPECT_EQ(value.scalar_type(), at::kBFloat16) << name;
}

/// The checkpoint contains the shift, its gain and its schedule. λ has no state: each pass computes
/// it.
TEST_F(TrainerRanks, HoldTheNumberOfExpertsAlikeFromWhatACheckpointHolds) {
  Recipe recipe = this->recipe("decoder");
  recipe.model.router.method = "remoe";
  ConfigNode& hold = recipe.model.router.parts["adaptive-l1"];
  hold.set("controller", "hold");
  hold.set("dense_steps", 1);
  hold.set("ramp_steps", 3);
  expect_any_number(recipe, {{2, 0}, {4, 3}});
  std::vector<std::vector<double>> lambdas(3);
  const auto note = [&](Trainer& trainer, std::vector<double>& out) {
    while (trainer.step() < 6) out.push_back(trainer.advance().report.statistics.at("lambda"));
  };
  note(*trainer(recipe), lambdas[2]);
  on_ranks(2, [&](const dist::ProcessGroup& group) {
    note(*trainer(recipe, group), lambdas[static_cast<std::size_t>(group.rank())]);
  });
  EXPECT_GT(lambdas[2].back(), 0);
  EXPECT_EQ(lambdas[0], lambdas[2]);
  EXPECT_EQ(lambdas[1], lambdas[2]);
}

/// Thresholds are means of scores. The scores are added in the order of the parts, on any number of
/// ranks.
TEST_F(TrainerRanks, KeepTheSameThresholdsOfExpertsFromWhatACheckpointHolds) {
  Recipe recipe = this->recipe("decoder");
  recipe.model.router.method = "expert-choice";
  expect_any_number(recipe, {{2, 0}, {4, 3}});
  const auto run = trainer(recipe);
  const at::Tensor before = run->model_tensors().at("penstock.balancer_0.threshold").clone();
  run->advance();
  EXPECT_FALSE(run->model_tensors().at("penstock.balancer_0.threshold").equal(before));
}

TEST_F(TrainerRanks, DoNotSaveWeightsThatDriftedApart) {
  const Recipe recipe = this->recipe("decoder");
  on_ranks(2, [&](const dist::ProcessGroup& group) {
    const auto mine = trainer(recipe, group);
    if (group.rank() == 1) {
      const torch::NoGradGuard no_grad;
      mine->model().parameters()[0].add_(1e-3);
    }
    try {
      mine->optimizer_tensors();
      ADD_FAILURE() << "different weights were not noticed";
    } catch (const ReportedByRankZero&) {
      EXPECT_EQ(group.rank(), 1);
    } catch (const Error& error) {
      EXPECT_EQ(group.rank(), 0);
      testing::expect_says(error.what(), {"has another state of the weights than rank 0 on"});
    }
  });
}

/// A layout of several ranks, some of which hold the same slices of some tensors.
struct DividedCase {
  const char* name;
  int ranks;
  ParallelConfig parallel;
};
const std::vector<DividedCase> kWithReplicas = {
    {"tensor", 2, {.tensor = 2}},
    {"experts", 2, {.expert = 2}},
    {"stages", 2, {.pipeline = 2}},
    {"rows", 2, {.tensor = 2, .sequence = true}},
    {"tensor and experts", 4, {.tensor = 2, .expert = 2}},
    {"tensor and shared memory", 4, {.tensor = 2, .zero = 1}},
    {"whole experts", 4, {.tensor = 2, .expert = 4, .whole_experts = true}}};

TEST_F(TrainerRanks, HoldEqualReplicasInEveryLayout) {
  for (const DividedCase& layout : kWithReplicas) {
    const Recipe recipe = divided("remoe", layout.parallel);
    on_ranks(layout.ranks, [&](const dist::ProcessGroup& group) {
      const auto mine = divided_trainer(recipe, group);
      while (mine->step() < 3) EXPECT_EQ(mine->advance().failure, "") << layout.name;
      EXPECT_NO_THROW(mine->optimizer_tensors()) << layout.name;
    });
  }
}

TEST_F(TrainerRanks, DoNotSaveReplicasThatDriftedApart) {
  // What rank 0 says once the last rank has changed a tensor whose name ends so.
  const auto refusal = [&](const DividedCase& layout, const std::string& end, int steps) {
    return testing::agreed_error(layout.ranks, [&](const dist::ProcessGroup& group) {
      const auto mine = divided_trainer(divided("remoe", layout.parallel), group);
      while (mine->step() < steps) mine->advance();
      const torch::NoGradGuard no_grad;
      int changed = 0;
      for (auto& [name, tensor] : held_tensors(mine->model()))
        if (name.ends_with(end) && group.rank() + 1 == group.size() && changed++ == 0)
          tensor.add_(1e-3);
      EXPECT_EQ(changed > 0, group.rank() + 1 == group.size()) << end;
      group.barrier("changed");  // ranks that share the memory read it from here on
      mine->optimizer_tensors();
    });
  };
  const auto says = [](const std::string& said, const std::string& rank, const std::string& first,
                       const std::string& tensor) {
    EXPECT_TRUE(said.starts_with(rank + " on ")) << said;
    testing::expect_says(
        said, {"has another state of the weights than " + first + " on ", tensor + ": "});
  };
  for (const DividedCase* two : {&kWithReplicas[0], &kWithReplicas[1]}) {  // tensor; experts
    SCOPED_TRACE(two->name);
    says(refusal(*two, "scorer.weight", 0), "rank 1", "rank 0", "scorer.weight");
    says(refusal(*two, "layernorm.weight", 0), "rank 1", "rank 0", "layernorm.weight");
    says(refusal(*two, "lambda", 0), "rank 1", "rank 0", "balancer_0.lambda");
  }
  const DividedCase &stages = kWithReplicas[2], &both = kWithReplicas[4],
                    &shared = kWithReplicas[5];
  says(refusal(stages, "lambda", 0), "rank 1", "rank 0", "balancer_0.lambda");
  says(refusal(both, "scorer.weight", 0), "rank 3", "rank 0", "scorer.weight");
  // Only the ranks with the same heads hold the same slice.
  says(refusal(both, "qkv_proj.weight", 0), "rank 3", "rank 1", "qkv_proj.weight");
  // No other rank holds these experts, so a change is no drift.
  EXPECT_EQ(refusal(both, "experts.down", 0), "accepted");
  // Ranks 1 and 3 have one copy in shared memory after a step. Ranks 0 and 2 have another.
  says(refusal(shared, "scorer.weight", 1), "rank 1", "rank 0", "scorer.weight");
}

TEST_F(TrainerRanks, BeginInTheSameLayout) {
  const auto refusal = [&](const std::function<void(dist::Layout&, ParallelConfig&)>& change) {
    return testing::agreed_error(2, [&](const dist::ProcessGroup& group) {
      dist::Layout layout{.data = 2};
      ParallelConfig parallel;
      if (group.rank() == 1) change(layout, parallel);
      check_same_layout(group, layout, parallel);
    });
  };
  const auto says = [](const std::string& said, const std::string& part) {
    EXPECT_TRUE(said.starts_with("rank 1 on ")) << said;
    testing::expect_says(said, {"has another layout than rank 0 on", part});
  };
  EXPECT_EQ(refusal([](dist::Layout&, ParallelConfig&) {}), "accepted");
  EXPECT_EQ(refusal([](dist::Layout&, ParallelConfig& p) { p.overlap = false; }), "accepted");
  says(refusal([](dist::Layout&, ParallelConfig& p) { p.zero = 3; }), "parallel.zero = 0 -> 3");
  says(refusal([](dist::Layout& l, ParallelConfig&) { l = {.tensor = 2}; }),
       "parallel.data = 2 -> 1");
  says(refusal([](dist::Layout& l, ParallelConfig&) { l.sequence = true; }),
       "parallel.sequence = 0 -> 1");
}

TEST_F(TrainerRanks, BeginWithTheSameRecipeAndCorpus) {
  const auto refusal = [&](const std::function<void(Recipe&, std::string&)>& change) {
    return testing::agreed_error(2, [&](const dist::ProcessGroup& group) {
      Recipe recipe = this->recipe("decoder");
      std::string corpus = "hash";
      if (group.rank() == 1) change(recipe, corpus);
      check_same_beginning(group, recipe, corpus);
    });
  };
  EXPECT_EQ(refusal([](Recipe&, std::string&) {}), "accepted");
  EXPECT_EQ(refusal([](Recipe& recipe, std::string&) { recipe.data.corpus = "elsewhere"; }),
            "accepted");
  const std::string lr =
      refusal([](Recipe& recipe, std::string&) { recipe.train.optimizer.lr = 1; });
  EXPECT_TRUE(lr.starts_with("rank 1 on ")) << lr;
  testing::expect_says(lr, {"has another recipe than rank 0 on", "train.lr: 0.003 -> 1"});
  const std::string text = refusal([](Recipe&, std::string& corpus) { corpus = "other"; });
  testing::expect_says(text, {"has another corpus than rank 0"});
}

}  // namespace
}  // namespace penstock
