// The estimates of what a rank holds and sends, compared with counts by hand.
#include "penstock/train/layouts/rank_estimate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "penstock/base/error.h"
#include "penstock/models/counts/training_memory.h"
#include "penstock/train/layouts/sharing_bytes.h"
#include "penstock/train/ranks/parameter_units.h"
#include "tests/train/recipe_text.h"

namespace penstock {
namespace {

using testing::recipe_from;

Recipe counted_recipe(std::vector<std::string> overrides = {}) {
  for (const char* more : {"train.micro_batch=1", "model.vocab=256", "model.heads=4"})
    overrides.push_back(more);
  return recipe_from(overrides);
}

std::map<std::string, std::int64_t> sent(const RankEstimate& estimate) {
  return {estimate.bytes_per_step.begin(), estimate.bytes_per_step.end()};
}

double rows_bytes(const Recipe& r) {
  return 4.0 * static_cast<double>(r.train.micro_batch * r.train.sequence_length * r.model.d_model);
}

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

/// An expert has three matrices of d_model × d_ffn. A multiply-add costs 6 FLOPs, forward and
/// backward together.
TEST(RankEstimate, WaitsForTheRankWithTheMostRows) {
  const Recipe r = counted_recipe();
  const dist::Layout layout{.data = 2, .expert = 2};
  const MachineSpeeds even{.flops = 1e9}, uneven{.flops = 1e9, .rank_load = 1.5};
  const double parts = static_cast<double>(r.train.batch_sequences) / 2;
  const double multiply_adds = 3.0 * static_cast<double>(r.model.d_model * r.model.d_ffn);
  const double tokens = static_cast<double>(r.train.sequence_length);
  const RankEstimate at_even = estimate_rank(r, layout, even),
                     at_uneven = estimate_rank(r, layout, uneven);
  EXPECT_NEAR(
      at_uneven.compute_seconds - at_even.compute_seconds,
      0.5 * parts * 6 * tokens * static_cast<double>(r.model.moe_layers()) * multiply_adds / 1e9,
      1e-12);
  EXPECT_NEAR(static_cast<double>(sent(at_uneven)["tokens"]),
              1.5 * static_cast<double>(sent(at_even)["tokens"]), 1);
  // Without divided experts, a rank computes the experts of its own tokens.
  EXPECT_EQ(estimate_rank(r, {.data = 2}, uneven).step_seconds,
            estimate_rank(r, {.data = 2}, even).step_seconds);
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

TEST(RankEstimate, HidesTokensBehindASharedExpert) {
  const dist::Layout layout{.data = 2, .expert = 2};
  const MachineSpeeds speeds{.flops = 1e9, .bandwidth = 1e9, .latency = 0};
  const auto step = [&](const std::string& overlap, std::int64_t width) {
    const Recipe r = counted_recipe(
        {concat("parallel.overlap=", overlap), concat("model.moe.shared_width=", width)});
    const RankEstimate found = estimate_rank(r, layout, speeds);
    return found.compute_seconds + found.exchange_seconds - found.step_seconds;
  };
  EXPECT_EQ(step("false", 16), 0);
  // The gradients are hidden with and without a shared expert.
  const Recipe r = counted_recipe();
  const double tokens =
      static_cast<double>(sent(estimate_rank(r, layout, speeds))["tokens"]) / speeds.bandwidth;
  EXPECT_GT(step("true", 16), step("true", 0) + tokens * 0.99);
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

TEST(RankEstimate, CountsAnOuterStepOnceInItsLocalSteps) {
  const MachineSpeeds speeds{.flops = 1e9, .bandwidth = 1e6, .latency = 1e-3};
  const dist::Layout two{.data = 2};
  const auto with = [&](const std::string& key) {
    return estimate_rank(counted_recipe({"parallel.overlap=false", key}), two, speeds);
  };
  const RankEstimate every = with("parallel.local_steps=1"), ten = with("parallel.local_steps=10");
  auto before = sent(every), after = sent(ten);
  EXPECT_EQ(after["gradients"], before["gradients"] / 10);
  EXPECT_EQ(after["weights"], before["summed_gradients"] / 10);
  EXPECT_EQ(after.size(), 2U);
  EXPECT_NEAR(ten.exchange_seconds, every.exchange_seconds / 10, 1e-6);
  EXPECT_NEAR(ten.step_seconds, ten.compute_seconds + ten.exchange_seconds, 1e-12);
  EXPECT_EQ(ten.compute_seconds, every.compute_seconds);
  // The outer optimizer's weights and momentum are divided over two ranks. They add about one whole
  // moment.
  const double moments = static_cast<double>(every.memory.optimizer_bytes);
  EXPECT_GE(static_cast<double>(ten.memory.optimizer_bytes), 1.5 * moments);
  EXPECT_LT(static_cast<double>(ten.memory.optimizer_bytes), 1.75 * moments);
  EXPECT_EQ(ten.memory.parameter_bytes, every.memory.parameter_bytes);
  // No exchange is hidden behind the backward pass.
  const RankEstimate beside =
      estimate_rank(counted_recipe({"parallel.local_steps=10"}), two, speeds);
  EXPECT_EQ(beside.step_seconds, ten.step_seconds);
}

TEST(RankEstimate, AddsComputingBubbleAndExchange) {
  const Recipe r = counted_recipe({"parallel.overlap=false"});
  const MachineSpeeds speeds{.flops = 1e9, .bandwidth = 1e6, .latency = 0};
  const RankEstimate alone = estimate_rank(r, {}, speeds);
  const RankEstimate staged = estimate_rank(r, {.pipeline = 2}, speeds);
  const double parts = static_cast<double>(r.train.batch_sequences);
  // The second of two layers is in the stage of the head. This stage is the slowest.
  const double head = 6.0 * static_cast<double>(r.train.sequence_length * r.model.d_model * 256) *
                      parts / (alone.compute_seconds * speeds.flops);
  EXPECT_NEAR(staged.compute_seconds,
              alone.compute_seconds * ((1 - head) / 2 + head) * (1 + 1 / parts), 1e-12);
  EXPECT_NEAR(staged.efficiency(), alone.compute_seconds / 2 / staged.step_seconds, 1e-12);
  std::int64_t bytes = 0;
  for (const auto& [kind, number] : staged.bytes_per_step) bytes += number;
  EXPECT_NEAR(staged.exchange_seconds, static_cast<double>(bytes) / 1e6, 1e-9);
  EXPECT_NEAR(staged.step_seconds, staged.compute_seconds + staged.exchange_seconds, 1e-12);
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

/// With two ranks on each machine, one neighbour is on the same machine.
TEST(RankEstimate, SendsFasterWithinAMachine) {
  const Recipe r = counted_recipe({"parallel.overlap=false"});
  const MachineSpeeds near{.bandwidth = 1e6, .latency = 0, .node_ranks = 2, .node_bandwidth = 1e8};
  const MachineSpeeds far{.bandwidth = 1e6, .latency = 0};
  const auto seconds = [&](const dist::Layout& layout, const MachineSpeeds& speeds) {
    return estimate_rank(r, layout, speeds).exchange_seconds;
  };
  EXPECT_NEAR(seconds({.tensor = 2}, near), seconds({.tensor = 2}, far) / 100, 1e-9);
  EXPECT_NEAR(seconds({.pipeline = 2}, near), seconds({.pipeline = 2}, far) / 100, 1e-9);
  // One of the three other ranks is on the same machine.
  EXPECT_NEAR(seconds({.data = 4}, near), seconds({.data = 4}, far) * (2 + 0.01) / 3, 1e-9);
  // Stages are two ranks apart, so all their messages go to another machine.
  const dist::Layout both{.tensor = 2, .pipeline = 2};
  auto bytes = sent(estimate_rank(r, both));
  EXPECT_NEAR(
      seconds(both, near),
      static_cast<double>(bytes["stages"]) / 1e6 + static_cast<double>(bytes["tensor"]) / 1e8,
      1e-9);
}

/// AdamW reads weight, gradient and moments, and writes weight and moments. The norm reads the
/// gradient. Together these are 32 bytes a number. Adding a gradient to another moves 12 bytes a
/// number.
TEST(RankEstimate, CountsTheUpdateAsWorkOnMemory) {
  const MachineSpeeds speeds{.memory_bandwidth = 1e9};
  const Recipe r = counted_recipe();
  const RankEstimate one = estimate_rank(r, {}, speeds);
  const auto numbers = static_cast<double>(one.memory.parameter_bytes) / 4;
  const auto parts = static_cast<double>(r.train.batch_sequences);
  EXPECT_NEAR(one.update_seconds, numbers * (32 + 12 * (parts - 1)) / 1e9, 1e-12);
  EXPECT_NEAR(one.step_seconds, one.compute_seconds + one.update_seconds, 1e-12);
  EXPECT_NEAR(one.communication(), 0, 1e-12);
  const RankEstimate divided =
      estimate_rank(counted_recipe({"parallel.zero=1"}), {.data = 2}, speeds);
  EXPECT_NEAR(
      divided.update_seconds,
      (4.0 * static_cast<double>(divided.memory.optimizer_bytes) + 12 * numbers * (parts / 2 - 1)) /
          1e9,
      1e-12);
  EXPECT_EQ(estimate_rank(r, {}).update_seconds, 0);
}

/// For a byte of gradients, packing and adding move 5 bytes of memory. For a byte of sums,
/// receiving moves 2 bytes, and a rank's own sums move 4 bytes once for all other ranks.
TEST(RankEstimate, CountsWhatTheExchangeDoesToMemory) {
  const Recipe r = counted_recipe({"parallel.overlap=false"});
  const MachineSpeeds network{.bandwidth = 1e6, .latency = 0};
  MachineSpeeds both = network;
  both.memory_bandwidth = 1e7;
  const auto more = [&](const dist::Layout& layout) {
    return estimate_rank(r, layout, both).exchange_seconds -
           estimate_rank(r, layout, network).exchange_seconds;
  };
  for (const int ranks : {2, 4}) {
    auto bytes = sent(estimate_rank(r, {.data = ranks}));
    EXPECT_NEAR(more({.data = ranks}),
                (5.0 * static_cast<double>(bytes["gradients"]) +
                 (2 + 4.0 / (ranks - 1)) * static_cast<double>(bytes["summed_gradients"])) /
                    1e7,
                1e-9);
  }
}

/// The first gradients are ready when the backward pass has left the second of two layers. The
/// gradients of the first layer and of the embedding are exchanged after the pass.
TEST(RankEstimate, HidesNeitherTheFirstLayersTimeNorTheLastExchange) {
  const Recipe r = counted_recipe();
  const dist::Layout two{.data = 2};
  const auto hidden = [&](const MachineSpeeds& speeds) {
    const RankEstimate rank = estimate_rank(r, two, speeds);
    return rank.compute_seconds + rank.exchange_seconds - rank.step_seconds;
  };
  double all = 0, in_layers = 0;
  for (const ParameterSize& size : parameter_sizes(r.model.resolved())) {
    const auto numbers = static_cast<double>(size.elements);
    all += numbers;
    if (parameter_units({size}, {}, 1, 1).front().layer >= 0) in_layers += numbers;
  }
  const MachineSpeeds slow{.flops = 1e6, .bandwidth = 1e9, .latency = 0};
  EXPECT_NEAR(hidden(slow), estimate_rank(r, two, slow).exchange_seconds * in_layers / 2 / all,
              1e-9);
  const MachineSpeeds fast{.flops = 1e12, .bandwidth = 1e3, .latency = 0};
  const double parts = static_cast<double>(r.train.batch_sequences) / 2;
  const double backward = 2.0 / 3 * estimate_rank(r, two, fast).compute_seconds / parts;
  EXPECT_NEAR(hidden(fast), backward / 2, 1e-9);
}

/// A byte that is sent beside the computation costs time of a core. A byte that the rank waits for
/// does not.
TEST(RankEstimate, ChargesTheProcessorForWhatIsHidden) {
  const dist::Layout two{.data = 2};
  MachineSpeeds speeds{.flops = 1e6, .bandwidth = 1e9, .latency = 0};
  const RankEstimate free = estimate_rank(counted_recipe(), two, speeds);
  const double hidden = free.compute_seconds + free.exchange_seconds - free.step_seconds;
  ASSERT_GT(hidden, 0);
  speeds.exchange_cost = 0.25e-9;  // a quarter of the network's time
  EXPECT_NEAR(estimate_rank(counted_recipe(), two, speeds).step_seconds - free.step_seconds,
              hidden / 4, 1e-9);
  const Recipe waits = counted_recipe({"parallel.overlap=false"});
  const double waited = estimate_rank(waits, two, speeds).step_seconds;
  speeds.exchange_cost = 0;
  EXPECT_EQ(estimate_rank(waits, two, speeds).step_seconds, waited);
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
