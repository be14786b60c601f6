// Weights in shared memory: their values stay, and all ranks see what one rank writes. Where ranks
// cannot share memory, nothing changes.
#include "penstock/train/ranks/shared_weights.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <string>

#include "penstock/base/error.h"
#include "penstock/dist/identity.h"
#include "tests/dist/message_of.h"
#include "tests/dist/ranks.h"

namespace penstock::shared_weights_test {
namespace {

constexpr int kRanks = 3;

std::vector<at::Tensor> weights() {
  return {torch::arange(1000, at::kFloat).view({10, 100}), torch::arange(7, at::kDouble),
          torch::full({3}, 2.5f)};
}

/// Moves the weights to shared memory. Returns whether the ranks could share memory.
bool share(const dist::ProcessGroup& group, const std::vector<at::Tensor>& weights) {
  const at::Tensor memory = shared_memory_for(group, weights);
  if (memory.defined()) move_weights(group, weights, memory);
  return memory.defined();
}

class SharedWeights : public testing::RanksTest<> {};

TEST_F(SharedWeights, AreOneMemoryForAllRanks) {
  testing::on_ranks(kRanks, [](const dist::ProcessGroup& group) {
    const std::vector<at::Tensor> mine = weights(), before = weights();
    const at::Tensor view = mine[0][3];  // made before the move: it moves with the storage
    EXPECT_FALSE(is_shared(mine[0]));
    ASSERT_TRUE(share(group, mine));
    for (std::size_t i = 0; i < mine.size(); ++i) {
      EXPECT_TRUE(is_shared(mine[i]));
      EXPECT_TRUE(torch::equal(mine[i], before[i]));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mine[i].data_ptr()) % 64, 0U);
    }
    group.barrier("read");
    mine[1][group.rank()] = -group.rank() - 1.0;
    group.barrier("written");
    EXPECT_TRUE(
        torch::equal(mine[1], torch::tensor({-1.0, -2.0, -3.0, 3.0, 4.0, 5.0, 6.0}, at::kDouble)));
    EXPECT_TRUE(torch::equal(view, before[0][3]));
    EXPECT_EQ(view.data_ptr(), mine[0][3].data_ptr());
  });
}

TEST_F(SharedWeights, StayWhereRanksShareNoMemory) {
  const auto stay = [](const dist::ProcessGroup& group) {
    const std::vector<at::Tensor> mine = weights();
    const void* const place = mine[0].data_ptr();
    EXPECT_FALSE(share(group, mine));
    EXPECT_EQ(mine[0].data_ptr(), place);
    EXPECT_FALSE(is_shared(mine[0]));
  };
  testing::on_ranks(kRanks, stay, {.shared_memory = false, .check = true});
  stay({});  // one process
}

TEST_F(SharedWeights, AreRefusedWhereRanksHaveOtherSizes) {
  const auto failures = testing::failures_on_ranks(
      2,
      [](const dist::ProcessGroup& group) {
        shared_memory_for(group, {torch::zeros({100 * (1 + group.rank())})});
      },
      {});
  const std::string on = concat(" on ", dist::host_name(), " shares ");
  const std::string small = "rank 0" + on + "448 bytes", large = "rank 1" + on + "832 bytes";
  EXPECT_EQ(testing::message_of(failures[0]), large + ", " + small);
  EXPECT_EQ(testing::message_of(failures[1]), small + ", " + large);
}

TEST_F(SharedWeights, StayWhereOneIsAPartOfAnotherTensor) {
  testing::on_ranks(kRanks, [](const dist::ProcessGroup& group) {
    const at::Tensor whole = torch::zeros({4, 4});
    EXPECT_FALSE(share(group, {weights()[0], whole[1]}));
    EXPECT_FALSE(share(group, {torch::zeros({4, 4}).t()}));
  });
}

}  // namespace
}  // namespace penstock::shared_weights_test
