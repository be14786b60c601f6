// Which rank writes which part of a checkpoint: every number once, from a rank that holds it, in
// even shares.
#include "penstock/train/checkpoints/checkpoint_shares.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "penstock/models/formats/rank_slices.h"
#include "penstock/train/layouts/sharing_bytes.h"
#include "penstock/train/read_recipe.h"
#include "tests/train/small_run.h"

namespace penstock {
namespace {

ModelConfig model(std::int64_t layers = 4) {
  ConfigNode node = testing::small_recipe_node("topk", 8, 16, "unused");
  node.set("model.vocab", 256);
  node.set("model.layers", layers);
  node.set("model.d_model", 64);
  return read_recipe(node).model.resolved();
}

/// The sizes of the parameters that a rank of the stage trains, by its slices.
std::vector<ParameterSize> trained(const ModelConfig& config, const dist::Layout& layout,
                                   int stage) {
  std::set<std::string> buffers;
  for (const ModelTensor& tensor : model_tensors(config.resolved()))
    if (tensor.role == TensorRole::balancer) buffers.insert(tensor.module);
  std::vector<ParameterSize> out;
  const ModelPart part = part_of_rank(config, layout, rank_at(layout, {.pipeline = stage}));
  for (const auto& [name, slice] : model_slices(config, part))
    if (!buffers.contains(name)) out.push_back({name, FilePart{.slice = slice}.numbers()});
  return out;
}

std::vector<TensorShare> shares_of(const ModelConfig& config, const dist::Layout& layout, int zero,
                                   int stage) {
  return checkpoint_shares(
      config, {.layout = layout, .zero = zero, .trained = trained(config, layout, stage)}, stage);
}

const std::vector<dist::Layout> kLayouts = {
    {},
    {.data = 3},
    {.tensor = 2},
    {.pipeline = 2},
    {.data = 2, .expert = 2},
    {.data = 4, .expert = 2},
    {.data = 2, .tensor = 2, .pipeline = 2, .expert = 2},
    {.data = 2, .tensor = 2, .expert = 4, .whole_experts = true}};

TEST(CheckpointShares, HaveEveryTensorOnce) {
  const ModelConfig config = model();
  for (const dist::Layout& layout : kLayouts)
    for (const int zero : {0, 1, 3}) {
      std::map<std::string, std::vector<std::int64_t>> found;
      for (int stage = 0; stage < layout.pipeline; ++stage)
        for (const TensorShare& share : shares_of(config, layout, zero, stage))
          EXPECT_TRUE(found.emplace(share.name, share.shape).second) << share.name;
      EXPECT_EQ(found, tensor_shapes(config.resolved()));
    }
}

/// Counts how often each number of a tensor is sent, and checks that the sender holds it.
TEST(CheckpointShares, ComeFromRanksThatHoldThem) {
  const ModelConfig config = model(2);
  const auto tensors = model_tensors(config.resolved());
  std::size_t most = 0;
  for (const dist::Layout& layout : kLayouts)
    for (int stage = 0; stage < layout.pipeline; ++stage)
      for (const TensorShare& share : shares_of(config, layout, 3, stage)) {
        const auto slice_of = [&](int rank) -> std::optional<Slice> {
          for (const FilePart& part :
               file_parts(tensors, config, part_of_rank(config, layout, rank)))
            if (part.name == share.name) return part.slice;
          return std::nullopt;
        };
        EXPECT_TRUE(slice_of(share.owner)) << share.name;
        for (const bool weights : {true, false}) {
          const at::Tensor counts = torch::zeros(share.shape);
          for (const SharedSlice& slice : share.slices) {
            const at::Tensor part = torch::zeros(slice.slice.part_shape());
            most = std::max(most, (weights ? slice.weights : slice.moments).size());
            for (const HeldRange& range : weights ? slice.weights : slice.moments) {
              EXPECT_EQ(slice_of(range.rank), slice.slice) << share.name;
              part.view(-1).slice(0, range.begin, range.end).add_(1);
            }
            const at::Tensor more = torch::zeros(share.shape);
            put(more, slice.slice, part);
            counts.add_(more);
          }
          EXPECT_TRUE(torch::equal(counts, torch::ones(share.shape))) << share.name;
        }
      }
  EXPECT_GT(most, 1U);  // several ranks hold numbers of one slice
}

TEST(CheckpointShares, AreEvenAmongThoseWhoHoldTheSame) {
  const ModelConfig config = model();
  for (const dist::Layout& layout : kLayouts)
    for (int stage = 0; stage < layout.pipeline; ++stage) {
      std::map<int, std::int64_t> loads;
      std::int64_t all = 0, largest = 0;
      for (const TensorShare& share : shares_of(config, layout, 1, stage)) {
        loads[share.owner] += share.numbers();
        all += share.numbers();
        largest = std::max(largest, share.numbers());
      }
      const int ranks = layout.data * layout.tensor;
      EXPECT_EQ(std::ssize(loads), ranks);
      for (const auto& [rank, load] : loads) EXPECT_LE(load, all / ranks + largest) << rank;
    }
}

/// Experts are not sent: the rank that writes an expert holds it, alone or as a copy.
TEST(CheckpointShares, LeaveExpertsAndStagesWhereTheyAre) {
  const ModelConfig config = model();
  for (const dist::Layout& layout : {kLayouts[3], kLayouts[4], kLayouts[5]})
    for (int stage = 0; stage < layout.pipeline; ++stage)
      for (const TensorShare& share : shares_of(config, layout, 0, stage))
        for (const SharedSlice& slice : share.slices)
          for (const auto* ranges : {&slice.weights, &slice.moments})
            for (const HeldRange& range : *ranges) EXPECT_EQ(range.rank, share.owner);
}

TEST(CheckpointShares, GoInTurnsOfBoundedSize) {
  const ModelConfig config = model();
  const dist::Layout layout{.data = 2, .tensor = 2};
  const auto shares = shares_of(config, layout, 1, 0);
  std::int64_t largest = 0;
  for (const TensorShare& share : shares) largest = std::max(largest, share.numbers() / 3);
  constexpr std::int64_t kMost = 20000;
  const auto turns = share_turns(shares, kMost);
  EXPECT_GT(turns.size(), 3U);
  std::set<std::pair<std::size_t, int>> seen;
  for (const auto& turn : turns) {
    std::map<int, std::int64_t> received;
    for (const ShareItem& item : turn) {
      EXPECT_TRUE(seen.emplace(item.share, item.kind).second);
      const TensorShare& share = shares[item.share];
      for (const SharedSlice& slice : share.slices)
        for (const HeldRange& range : item.kind == 0 ? slice.weights : slice.moments)
          if (range.rank != share.owner) received[share.owner] += range.end - range.begin;
    }
    for (const auto& [rank, numbers] : received) EXPECT_LE(numbers, kMost + largest);
  }
  std::size_t items = 0;
  for (const TensorShare& share : shares) items += share.trained ? 3 : 1;
  EXPECT_EQ(seen.size(), items);
}

}  // namespace
}  // namespace penstock
