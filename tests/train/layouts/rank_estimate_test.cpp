// The estimates of what a rank holds and sends, compared with counts by hand.
#include "penstock/train/layouts/rank_estimate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "penstock/models/counts/training_memory.h"
#include "penstock/train/ranks/parameter_units.h"
#include "tests/train/layouts/counted_recipe.h"
#include "tests/train/layouts/parameter_sizes.h"

namespace penstock {
namespace {

using testing::counted_recipe, testing::parameter_sizes, testing::rows_bytes, testing::sent;

TEST(RankEstimate, OfOneProcessIsTheMemoryOfTraining) {
  const Recipe r = counted_recipe();
  const RankEstimate one = estimate_rank(r, {});
  const TrainingMemory whole =
      training_memory(r.model.resolved(), 1, r.train.sequence_length, false);
  EXPECT_EQ(one.memory.parameter_bytes, whole.parameter_bytes);
  EXPECT_EQ(one.memory.optimizer_bytes, whole.optimizer_bytes);
  EXPECT_EQ(one.memory.activation_bytes, whole.activation_bytes);
  EXPECT_TRUE(one.bytes_per_step.empty());
  EXPECT_EQ(one.step_seconds, one.compute_seconds);
}

TEST(RankEstimate, CountsRowsBetweenStagesAndOfHeads) {
  const Recipe r = counted_recipe();
  const double parts = static_cast<double>(r.train.batch_sequences), layers = r.model.layers;
  EXPECT_EQ(sent(estimate_rank(r, {.pipeline = 2}))["stages"], 2 * parts * rows_bytes(r));
  // A layer has two sums in each direction. For each sum, a rank sends a half twice.
  EXPECT_EQ(sent(estimate_rank(r, {.tensor = 2}))["tensor"], 4 * layers * parts * rows_bytes(r));
}

TEST(RankEstimate, CountsTokensThatGoToOtherRanks) {
  // Top-1 on two ranks: half of the tokens go to the other rank and return, in the forward and in
  // the backward pass.
  const Recipe r = counted_recipe();
  const dist::Layout layout{.data = 2, .expert = 2};
  const double parts = static_cast<double>(r.train.batch_sequences) / 2;
  EXPECT_NEAR(static_cast<double>(sent(estimate_rank(r, layout))["tokens"]),
              4.0 * static_cast<double>(r.model.moe_layers()) * parts * 0.5 * rows_bytes(r), 1);
}

TEST(RankEstimate, DividesTokensInPlaceOfNeurons) {
  // Each of two tensor ranks has half of the tokens. Half of these go to the other rank.
  const Recipe r = counted_recipe();
  const dist::Layout whole{.tensor = 2, .expert = 2, .whole_experts = true}, cut{.tensor = 2};
  const double parts = static_cast<double>(r.train.batch_sequences);
  RankEstimate found = estimate_rank(r, whole);
  EXPECT_NEAR(static_cast<double>(sent(found)["tokens"]),
              4.0 * static_cast<double>(r.model.moe_layers()) * parts * 0.5 * rows_bytes(r) / 2, 1);
  EXPECT_EQ(sent(found)["tensor"], sent(estimate_rank(r, cut))["tensor"]);
  // A rank holds as many numbers of experts as where neurons are divided. No other rank holds the
  // same experts.
  EXPECT_EQ(found.memory.parameter_bytes, estimate_rank(r, cut).memory.parameter_bytes);
  EXPECT_EQ(sent(found).count("gradients"), 0U);
  // Each rank holds all experts. The ranks exchange the gradients of these experts.
  found = estimate_rank(r, {.tensor = 2, .whole_experts = true});
  EXPECT_EQ(sent(found).count("tokens"), 0U);
  EXPECT_GT(sent(found)["gradients"], 0);
}

TEST(RankEstimate, DividesWhatTheAxesDivide) {
  const TrainingMemory one = estimate_rank(counted_recipe(), {}).memory;
  const TrainingMemory zero =
      estimate_rank(counted_recipe({"parallel.zero=1"}), {.data = 2}).memory;
  EXPECT_EQ(zero.parameter_bytes, one.parameter_bytes);
  // About a half: small parameters are not cut, each goes to one rank.
  EXPECT_GE(2 * zero.optimizer_bytes, one.optimizer_bytes);
  EXPECT_LT(4 * zero.optimizer_bytes, 3 * one.optimizer_bytes);
  const TrainingMemory experts = estimate_rank(counted_recipe(), {.data = 2, .expert = 2}).memory;
  EXPECT_LT(experts.parameter_bytes, one.parameter_bytes);
  EXPECT_GT(2 * experts.parameter_bytes, one.parameter_bytes);
}

TEST(RankEstimate, DividesActivationsByHeadsAndNeurons) {
  const Recipe r = counted_recipe();
  const auto held = [&](const dist::Layout& layout) {
    return static_cast<double>(estimate_rank(r, layout).memory.activation_bytes);
  };
  const auto [layers, besides] = activations(r.model, {.sequence_length = r.train.sequence_length});
  EXPECT_NEAR(held({}), layers + besides, 1);
  // Both ranks hold the rows between layers: 4d of each layer and 3d at the ends.
  EXPECT_LT(held({.tensor = 2}), layers + besides);
  EXPECT_GT(held({.tensor = 2}), (layers + besides) / 2);
  // The first of two stages holds two micro-batches of one layer each.
  EXPECT_NEAR(held({.pipeline = 2}), layers + besides, 1);
}

/// The rows are divided over two ranks.
TEST(RankEstimate, CountsDividedRows) {
  const Recipe r = counted_recipe({"parallel.overlap=false"});
  const MachineSpeeds speeds{.flops = 1e9, .bandwidth = 1e6, .latency = 0};
  const auto of = [&](const dist::Layout& layout) { return estimate_rank(r, layout, speeds); };
  const RankEstimate whole = of({.tensor = 2}), divided = of({.tensor = 2, .sequence = true});
  // A layer's rows are sent as often. The gradients of norms, embedding and head are shares, which
  // are summed once in a step.
  const std::int64_t d = r.model.d_model, shared = (2 * r.model.layers + 1) * d + 2 * 256 * d;
  EXPECT_EQ(sent(divided)["tensor"], sent(whole)["tensor"] + 4 * shared);
  EXPECT_EQ(sent(divided).size(), sent(whole).size());
  // A rank saves half of the layers' residuals, of the residuals' gradients, and of the rows at the
  // ends.
  const double rows = rows_bytes(r);
  EXPECT_NEAR(static_cast<double>(whole.memory.activation_bytes - divided.memory.activation_bytes),
              (static_cast<double>(r.model.layers) + 1 + 1.5) * rows, 1);
  EXPECT_EQ(whole.memory.parameter_bytes, divided.memory.parameter_bytes);
  EXPECT_EQ(divided.exchange_bytes, 3 * 4 * 256 * d);
  // The head's rows are divided too.
  EXPECT_NEAR(divided.compute_seconds, of({}).compute_seconds / 2, 1e-12);
  EXPECT_GT(whole.compute_seconds, 1.05 * divided.compute_seconds);
  // Stages send half of the rows.
  auto stages = sent(of({.tensor = 2, .pipeline = 2}));
  EXPECT_EQ(2 * sent(of({.tensor = 2, .pipeline = 2, .sequence = true}))["stages"],
            stages["stages"]);
}

/// Each of two ranks owns half of a unit. It sends its gradients of the other half, and receives
/// the other rank's gradients of its own half, to which it adds its own. Then it packs its half
/// once more and gathers both halves. Through shared memory, each rank writes two files in turn.
TEST(RankEstimate, CountsTheBuffersOfTheLargestUnit) {
  const Recipe r = counted_recipe();
  std::vector<ParameterSize> sizes = parameter_sizes(r.model.resolved());
  std::ranges::sort(sizes, {}, &ParameterSize::name);
  std::int64_t half = 0;
  for (const ParameterUnit& unit : parameter_units(sizes, {}, 2, 2))
    half = std::max({half, 4 * unit.elements(0), 4 * unit.elements(1)});
  const auto held = [](const std::string& zero, int here, bool shared_memory = false) {
    return estimate_rank(counted_recipe({"train.batch_sequences=2", "parallel.zero=" + zero}),
                         {.data = 2}, {.node_ranks = here, .shared_memory = shared_memory})
        .exchange_bytes;
  };
  // The half that arrived, the half that is sent, and the half that comes for it. With zero, at
  // most two of them exist at the same time.
  EXPECT_EQ(held("0", 1), 3 * half);
  EXPECT_EQ(held("1", 1), 2 * half);
  EXPECT_EQ(held("3", 1), 4 * half);  // weights arrive at the same time
  // The half that arrived, and two files. With zero = 3, weights have two files of their own, or no
  // file if all ranks share one copy.
  EXPECT_EQ(held("0", 2), 3 * half);
  EXPECT_EQ(held("3", 2), 5 * half);
  EXPECT_EQ(held("3", 2, true), 3 * half);
  EXPECT_EQ(held("3", 1, true), 4 * half);  // on two machines
}

/// The part of an even share of the checkpoint that a rank does not hold: moments with zero; also
/// weights with zero = 3 or with divided matrices.
TEST(RankEstimate, CountsWhatRanksGetOfEachOtherToSave) {
  const Recipe r = counted_recipe();
  const auto besides = [](const dist::Layout& layout, const std::string& zero) {
    return estimate_rank(counted_recipe({"parallel.zero=" + zero}), layout).checkpoint_bytes;
  };
  const std::int64_t weights = estimate_rank(r, {}).memory.parameter_bytes;
  EXPECT_EQ(besides({}, "0"), 0);
  EXPECT_EQ(besides({.data = 2}, "0"), 0);
  EXPECT_EQ(besides({.data = 2}, "1"), weights);
  EXPECT_EQ(besides({.data = 4}, "2"), weights / 2);
  EXPECT_EQ(besides({.data = 2}, "3"), 3 * weights / 2);
  EXPECT_EQ(besides({.tensor = 2}, "0"), 3 * weights / 2);
  EXPECT_EQ(besides({.data = 2, .tensor = 2}, "1"), 3 * weights / 4);
  // The rank that writes a layer or an expert holds it whole.
  EXPECT_EQ(besides({.pipeline = 2}, "0"), 0);
  EXPECT_EQ(besides({.data = 2, .expert = 2}, "0"), 0);
  // The larger of the two stages counts.
  EXPECT_GT(besides({.data = 2, .pipeline = 2}, "1"), weights / 2);
  EXPECT_LT(besides({.data = 2, .pipeline = 2}, "1"), weights);
  EXPECT_EQ(estimate_rank(counted_recipe({"parallel.local_steps=5"}), {.data = 3}).checkpoint_bytes,
            5 * weights);
}

/// Where the model is divided, rank 0 holds the whole weights twice: as they arrive, and in a
/// model.
TEST(RankEstimate, CountsWhatRankZeroGathersToEvaluate) {
  const Recipe r = counted_recipe();
  const auto besides = [](const dist::Layout& layout, const std::string& zero) {
    return estimate_rank(counted_recipe({"parallel.zero=" + zero}), layout).evaluation_bytes;
  };
  const std::int64_t weights = estimate_rank(r, {}).memory.parameter_bytes;
  EXPECT_EQ(besides({.data = 2}, "1"), 0);
  // A rank always holds two layers, and the model has no more.
  EXPECT_EQ(besides({.data = 2}, "3"), 0);
  for (const dist::Layout& layout : {dist::Layout{.tensor = 2}, dist::Layout{.pipeline = 2},
                                     dist::Layout{.data = 2, .expert = 2}})
    EXPECT_EQ(besides(layout, "0"), 2 * weights);
}

}  // namespace
}  // namespace penstock
