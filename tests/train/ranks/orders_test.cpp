// Rank 0's orders where its work with the other ranks fails: on all ranks, or on rank 0 alone while
// the other ranks wait in the middle of their part.
#include "penstock/train/ranks/orders.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <chrono>
#include <thread>

#include "penstock/train/ranks/agreement.h"
#include "tests/base/error_of.h"
#include "tests/dist/ranks.h"

namespace penstock {
namespace {

using dist::ProcessGroup;

/// The exceptions of rank 0 and rank 1. After an order, rank 0 runs `part` and rank 1 runs `other`.
std::vector<std::exception_ptr> failures(const std::function<void(const ProcessGroup&)>& part,
                                         const std::function<void(const ProcessGroup&)>& other) {
  return testing::failures_on_ranks(2,
                                    [&](const ProcessGroup& group) {
                                      if (group.rank() == 0) {
                                        Leader leader(group);
                                        leader.begin();
                                        leader.together(Order::gather, [&] { part(group); });
                                        leader.end(RunOutcome::finished);
                                      } else {
                                        EXPECT_EQ(next_order(group), Order::gather);
                                        other(group);
                                        if (next_order(group) == Order::failed)
                                          throw ReportedByRankZero("rank 0 failed");
                                      }
                                    },
                                    {.timeout = std::chrono::seconds(600)});
}

class Orders : public testing::RanksTest<> {
 protected:
  void TearDown() override { EXPECT_LT(Clock::now() - begun_, std::chrono::seconds(30)); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begun_ = Clock::now();
};

TEST_F(Orders, EndTheGroupWhereRankZeroFailsAlone) {
  const auto thrown = failures([](const ProcessGroup&) { fail("out of room"); },
                               [](const ProcessGroup& group) {
                                 at::Tensor values = torch::zeros({1 << 20});
                                 group.receive(values, 0);
                               });
  EXPECT_THROW(std::rethrow_exception(thrown[0]), dist::FailedRank);
  EXPECT_THROW(std::rethrow_exception(thrown[1]), dist::LostRank);
}

TEST_F(Orders, KeepAnAgreedFailureAsItIs) {
  const auto thrown = failures(
      [](const ProcessGroup& group) {
        on_all_ranks(group, [] {
          fail("no such file");
          return true;
        });
      },
      [](const ProcessGroup& group) { on_all_ranks(group, [] { return true; }); });
  EXPECT_EQ(testing::error_of([&] { std::rethrow_exception(thrown[0]); }), "no such file");
  EXPECT_THROW(std::rethrow_exception(thrown[1]), ReportedByRankZero);
}

/// Rank 1 is gone while rank 0 waits for it in an action that needs both.
TEST_F(Orders, NameTheRankThatIsLostInAnAction) {
  const auto thrown =
      testing::failures_on_ranks(2,
                                 [](const ProcessGroup& group) {
                                   if (group.rank() == 1) fail("out of room");
                                   on_all_ranks(group, [&] {
                                     group.all_reduce(torch::ones({1}), dist::Reduction::sum);
                                     return true;
                                   });
                                 },
                                 {.timeout = std::chrono::seconds(600)});
  try {
    std::rethrow_exception(thrown[0]);
  } catch (const dist::LostRank& error) {
    const std::string said = error.what();
    testing::expect_says(said, {" lost rank 1 on ", "in all_reduce"});
  }
}

TEST_F(Orders, TellTheOthersWhereRankZeroFailsBetweenThem) {
  const auto thrown = testing::failures_on_ranks(2,
                                                 [](const ProcessGroup& group) {
                                                   if (group.rank() == 0) {
                                                     Leader leader(group);
                                                     leader.begin();
                                                     fail("no room on the disk");
                                                   }
                                                   if (next_order(group) == Order::failed)
                                                     throw ReportedByRankZero("rank 0 failed");
                                                 },
                                                 {.timeout = std::chrono::seconds(600)});
  EXPECT_THROW(std::rethrow_exception(thrown[1]), ReportedByRankZero);
}

/// Rank 1 works for longer than a rank may be late in an operation.
TEST_F(Orders, WaitForARankThatSaysThatItStillWorks) {
  const auto thrown =
      testing::failures_on_ranks(2,
                                 [](const ProcessGroup& group) {
                                   for (int i = 0; i < 12 && group.rank() == 1; ++i) {
                                     std::this_thread::sleep_for(std::chrono::milliseconds(200));
                                     EXPECT_FALSE(all_done(group, false));
                                   }
                                   int rounds = 1;
                                   while (!all_done(group, true)) ++rounds;
                                   EXPECT_EQ(rounds, group.rank() == 0 ? 13 : 1);
                                 },
                                 {.timeout = std::chrono::seconds(2)});
  for (const std::exception_ptr& each : thrown) EXPECT_FALSE(each);
}

}  // namespace
}  // namespace penstock
