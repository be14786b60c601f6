// What collective operations return when every rank takes part and no rank fails.
#include "penstock/dist/group.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <latch>
#include <numeric>
#include <string>

#include "penstock/base/error.h"
#include "penstock/dist/transport.h"
#include "tests/dist/message_of.h"
#include "tests/dist/ranks.h"

namespace penstock {
namespace {

using dist::Pieces;
using dist::ProcessGroup;
using dist::Reduction;
using testing::failures_on_ranks;
using testing::message_of;
using testing::on_ranks;
using Counts = std::vector<std::int64_t>;

class Group : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!dist::has_transport() && GetParam() > 1) GTEST_SKIP() << "built without Gloo";
  }
};

TEST_P(Group, ReducesSumsAndMaxima) {
  const int size = GetParam();
  on_ranks(size, [&](const ProcessGroup& group) {
    for (const auto type : {at::kFloat, at::kDouble, at::kInt, at::kLong})
      for (const std::int64_t length : {3, 12345}) {
        const at::Tensor places = torch::arange(length, type);
        at::Tensor values = places * (group.rank() + 1);
        group.all_reduce(values, Reduction::sum);
        EXPECT_TRUE(torch::equal(values, places * (size * (size + 1) / 2)));
        values = (places + group.rank()).remainder_(size);
        group.all_reduce(values.view({3, -1}), Reduction::max);
        EXPECT_TRUE(values.eq(size - 1).all().item<bool>());
      }
  });
}

TEST_P(Group, ExchangesUnevenRows) {
  const int size = GetParam();
  on_ranks(size, [&](const ProcessGroup& group) {
    // Rank r sends (r + to) mod 3 rows to rank `to`. Each row names the sender and the receiver.
    // Some ranks send and receive no row.
    Counts counts;
    std::vector<at::Tensor> rows = {torch::empty({0, 2}, at::kLong)};
    for (int to = 0; to < size; ++to) {
      counts.push_back((group.rank() + to) % 3);
      rows.push_back(torch::tensor({group.rank(), to}, at::kLong).expand({counts.back(), 2}));
    }
    const at::Tensor sent = torch::cat(rows).contiguous();
    const at::Tensor found = group.all_to_all(sent, counts);
    // The counts are symmetric.
    EXPECT_TRUE(torch::equal(found, group.all_to_all(sent, counts, counts)));
    std::int64_t row = 0;
    for (int from = 0; from < size; ++from)
      for (int i = 0; i < (group.rank() + from) % 3; ++i, ++row) {
        EXPECT_EQ(found[row][0].item<int>(), from);
        EXPECT_EQ(found[row][1].item<int>(), group.rank());
      }
    EXPECT_EQ(found.size(0), row);
  });
}

/// start_all_to_all() returns before the other ranks have started. The last rank starts after all
/// others have started. Each other rank starts first, and then waits for the last rank.
TEST_P(Group, ExchangesRowsWhileRanksGoOn) {
  const int size = GetParam();
  std::latch started(size - 1);
  const auto action = [&](const ProcessGroup& group) {
    // Fewer bytes than sockets' buffers hold, and more.
    for (const std::int64_t rows : {3, 50000}) {
      const Counts counts(static_cast<std::size_t>(size), rows);
      const at::Tensor sent = torch::full({rows * size, 4}, group.rank());
      if (group.rank() == size - 1) started.wait();
      const auto arrived = group.start_all_to_all(sent, counts, counts);
      if (rows == 3 && group.rank() < size - 1) started.count_down();
      const at::Tensor found = arrived();
      for (int from = 0; from < size; ++from)
        EXPECT_TRUE(found.narrow(0, from * rows, rows).eq(from).all().item<bool>());
    }
  };
  // No comparison before the operation, because the comparison waits for all ranks.
  for (const auto& failure : failures_on_ranks(size, action, {}))
    EXPECT_EQ(message_of(failure), "nothing");
}

TEST_P(Group, HasNoOtherOperationWhileRowsAreUnderWay) {
  const int size = GetParam();
  if (size == 1) return;
  on_ranks(size, [&](const ProcessGroup& group) {
    const Counts counts(static_cast<std::size_t>(size), 1);
    const auto arrived = group.start_all_to_all(torch::zeros({size}), counts, counts);
    EXPECT_THROW(group.barrier("here"), AssertionError);
    EXPECT_THROW(group.start_all_to_all(torch::zeros({size}), counts, counts), AssertionError);
    arrived();
    group.barrier("here");
  });
}

/// The numbers that rank `from` sends to rank `to`, in `pieces` pieces: scale · (from + to)
/// numbers, counted from 100 · from. Filled with -1 if not `filled`.
Pieces pieces_of(int from, int to, std::int64_t scale, int pieces, bool filled) {
  const at::Tensor all = torch::arange(scale * (from + to), at::kLong).add(100 * from);
  Pieces out;
  for (const at::Tensor& piece : at::tensor_split(all, pieces))
    out.push_back(filled ? piece.clone() : torch::full_like(piece, -1));
  return out;
}

TEST_P(Group, ExchangesWhatLiesInPieces) {
  const int size = GetParam();
  on_ranks(size, [&](const ProcessGroup& group) {
    for (const std::int64_t scale : {1, 20000}) {  // the larger one goes through shared memory
      std::vector<Pieces> received, sent, gathered;
      for (int other = 0; other < size; ++other) {
        sent.push_back(pieces_of(group.rank(), other, scale, 3, true));
        received.push_back(pieces_of(other, group.rank(), scale, 2, false));
        gathered.push_back(pieces_of(other, 1, scale, 2, false));
      }
      group.start_all_to_all(received, sent)();
      group.all_gather(gathered, pieces_of(group.rank(), 1, scale, 3, true));
      for (int from = 0; from < size; ++from) {
        const auto at = static_cast<std::size_t>(from);
        EXPECT_TRUE(torch::equal(at::cat(received[at]),
                                 at::cat(pieces_of(from, group.rank(), scale, 1, true))));
        EXPECT_TRUE(
            torch::equal(at::cat(gathered[at]), at::cat(pieces_of(from, 1, scale, 1, true))));
      }
    }
  });
}

TEST_P(Group, SumsRowsInRankOrder) {
  const int size = GetParam();
  on_ranks(size, [&](const ProcessGroup& group) {
    Counts counts(static_cast<std::size_t>(size), 0);
    std::iota(counts.begin(), counts.end(), 1);
    const std::int64_t rows = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const auto of_rank = [&](int rank) {
      return torch::arange(rows * 2, at::kFloat).reshape({rows, 2}).div(3).add(rank / 7.0F).exp();
    };
    const std::int64_t first = group.rank() * (group.rank() + 1) / 2;
    at::Tensor expected = of_rank(0).narrow(0, first, group.rank() + 1).clone();
    for (int rank = 1; rank < size; ++rank)
      expected.add_(of_rank(rank).narrow(0, first, group.rank() + 1));
    EXPECT_TRUE(torch::equal(group.reduce_scatter(of_rank(group.rank()), counts), expected));
  });
}

TEST_P(Group, GathersAndBroadcasts) {
  const int size = GetParam();
  on_ranks(size, [&](const ProcessGroup& group) {
    const at::Tensor all = group.all_gather(torch::full({2}, group.rank() == 1, at::kBool));
    ASSERT_EQ(all.sizes(), (std::vector<std::int64_t>{size, 2}));
    for (int rank = 0; rank < size; ++rank) EXPECT_EQ(all[rank][1].item<bool>(), rank == 1);
    for (int root = 0; root < size; ++root) {
      at::Tensor values = torch::full({5}, group.rank(), at::kHalf);
      group.broadcast(values, root);
      EXPECT_TRUE(values.eq(root).all().item<bool>());
    }
    const int root = size - 1;
    // Longer texts than before, shorter ones, and a long one after five short ones.
    for (const std::size_t length : {0, 3, 5000, 10, 4900, 1, 1, 1, 1, 1, 5000}) {
      const std::string mine(length * static_cast<std::size_t>(group.rank()), 'x');
      const auto texts = group.gather(mine);
      ASSERT_EQ(std::ssize(texts), size);
      for (int rank = 0; rank < size; ++rank)
        EXPECT_EQ(texts[static_cast<std::size_t>(rank)].size(),
                  length * static_cast<std::size_t>(rank));
      EXPECT_EQ(group.broadcast_bytes(mine, root), texts.back());
    }
    group.barrier("the end");
    if (size > 1)
      EXPECT_GT(group.seconds(), 0);
    else
      EXPECT_EQ(group.seconds(), 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, Group, ::testing::Values(1, 2, 3, 4, 7));

TEST(OneProcess, IsAGroupWithoutConnections) {
  const ProcessGroup group;
  EXPECT_EQ(group.rank(), 0);
  EXPECT_EQ(group.size(), 1);
  at::Tensor values = torch::ones({2});
  group.all_reduce(values, Reduction::sum);
  group.broadcast(values);
  group.barrier("x");
  EXPECT_TRUE(values.eq(1).all().item<bool>());
  EXPECT_EQ(group.gather("mine"), std::vector<std::string>{"mine"});
  EXPECT_EQ(group.seconds(), 0);
  EXPECT_EQ(ProcessGroup::join({}).size(), 1);
}

}  // namespace
}  // namespace penstock
