// What a rank does and reports when the other rank differs, fails, is late, has left or never
// arrived.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <torch/types.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <future>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/dist/group.h"
#include "penstock/dist/group_table.h"
#include "penstock/dist/key_server.h"
#include "penstock/dist/sockets.h"
#include "penstock/dist/transport.h"
#include "tests/base/error_of.h"
#include "tests/dist/loopback_sockets.h"
#include "tests/dist/message_of.h"
#include "tests/dist/ranks.h"

namespace penstock {
namespace {

using dist::GroupOptions;
using dist::ProcessGroup;
using dist::Reduction;
using testing::failures_on_ranks;
using testing::message_of;
using testing::on_ranks;

class TwoRanks : public testing::RanksTest<> {};

/// Threads that read sockets run as SCHED_BATCH. A thread that reads at once would interrupt a
/// thread that sends and holds a lock.
TEST_F(TwoRanks, HaveThreadsThatInterruptNobody) {
  on_ranks(2, [](const ProcessGroup&) {
    EXPECT_EQ(::sched_getscheduler(0), SCHED_OTHER);
    int patient = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
      patient += ::sched_getscheduler(std::stoi(task.path().filename())) == SCHED_BATCH ? 1 : 0;
    EXPECT_GT(patient, 0);
  });
}

/// Gloo writes to connections that the other side or Links::cut() may have ended just before.
TEST_F(TwoRanks, AreNotEndedByASignalOfABrokenConnection) {
  on_ranks(2, [](const ProcessGroup&) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    ::close(ends[1]);
    EXPECT_EQ(::write(ends[0], "x", 1), -1);
    EXPECT_EQ(errno, EPIPE);
    ::close(ends[0]);
  });
}

TEST_F(TwoRanks, RefuseOperationsThatDiffer) {
  const GroupOptions checked{.timeout = std::chrono::seconds(20), .check = true};
  const auto shapes = failures_on_ranks(
      2,
      [](const ProcessGroup& group) {
        group.all_reduce(torch::zeros({group.rank() + 2}), Reduction::sum);
      },
      checked);
  testing::expect_says(message_of(shapes[0]), {"calls all_reduce (sum) of Float [2], rank 1 on"});
  const auto kinds = failures_on_ranks(
      2,
      [](const ProcessGroup& group) {
        at::Tensor values = torch::zeros({2});
        if (group.rank() == 0)
          group.broadcast(values);
        else
          group.all_gather(values);
      },
      checked);
  testing::expect_says(message_of(kinds[1]), {"calls all_gather of Float [2], rank 0 on"});
  const auto counts = failures_on_ranks(
      2,
      [](const ProcessGroup& group) {
        group.all_to_all(torch::zeros({2, 3}), std::vector<std::int64_t>{1, 1},
                         std::vector<std::int64_t>{1, group.rank() + 1});
      },
      checked);
  testing::expect_says(message_of(counts[1]), {"expects 2 rows from rank 1"});
  const auto places = failures_on_ranks(
      2, [](const ProcessGroup& group) { group.barrier(group.rank() == 0 ? "here" : "there"); },
      checked);
  testing::expect_says(message_of(places[0]), {"waits at 'here', rank 1 on"});
}

TEST_F(TwoRanks, NoticeThatTheOtherLeft) {
  const auto failures = failures_on_ranks(2,
                                          [](const ProcessGroup& group) {
                                            if (group.rank() == 1) return;
                                            group.all_reduce(torch::zeros({2}), Reduction::sum);
                                          },
                                          {.timeout = std::chrono::seconds(60)});
  ASSERT_TRUE(failures[0]);
  EXPECT_THROW(std::rethrow_exception(failures[0]), dist::LostRank);
  testing::expect_says(message_of(failures[0]), {"lost another rank in all_reduce (sum)"});
}

/// Gloo does not tell a thread that waits to send that the other side is gone.
TEST_F(TwoRanks, NameTheOneThatFailsAndWaitForNothingOfIt) {
  for (const bool sends : {true, false}) {
    const auto failures = failures_on_ranks(2,
                                            [&](const ProcessGroup& group) {
                                              const at::Tensor values = torch::zeros({16 << 20});
                                              if (group.rank() == 1) fail("out of room");
                                              if (sends)
                                                group.send(values, 1);
                                              else
                                                group.receive(values, 1);
                                            },
                                            {.timeout = std::chrono::seconds(600)});
    EXPECT_EQ(message_of(failures[1]), "out of room");
    EXPECT_THROW(std::rethrow_exception(failures[0]), dist::LostRank);
    const std::string host = dist::host_name();
    EXPECT_EQ(message_of(failures[0]), "rank 0 on " + host + " lost rank 1 on " + host +
                                           ", which failed, in " + (sends ? "send" : "receive"));
  }
}

/// The links are cut at any point of the transfer of a large message.
TEST_F(TwoRanks, EndAMessageThatIsCutInTheMiddle) {
  for (const int milliseconds : {1, 10}) {
    const auto start = std::chrono::steady_clock::now();
    const auto failures = failures_on_ranks(
        2,
        [&](const ProcessGroup& group) {
          const at::Tensor values = torch::zeros({64 << 20});
          if (group.rank() == 0) return group.receive(values, 1);
          const std::jthread cuts([&](const std::stop_token& ended) {
            for (; !ended.stop_requested(); group.table()->links().cut())
              std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
          });
          group.send(values, 0);
          fail("the message had left");
        },
        {.timeout = std::chrono::seconds(600)});
    for (const auto& failure : failures) EXPECT_TRUE(failure);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  }
}

/// Rank 0 fails, since rank 2 does, but its process stays. Its messages with rank 1 have no buffers
/// any more, and on an open connection they would keep Gloo's thread busy.
TEST_F(TwoRanks, CloseTheOtherConnectionsWhereOneOfSeveralMessagesFails) {
  using Counts = std::vector<std::int64_t>;
  std::latch under_way(1), failed(1), closed(1);
  std::string said;
  failures_on_ranks(3,
                    [&](const ProcessGroup& group) {
                      const at::Tensor row = torch::zeros({1, 4});
                      if (group.rank() == 2) {
                        under_way.wait();
                        fail("out of room");
                      }
                      if (group.rank() == 1) {
                        failed.wait();
                        said = testing::error_or("arrived", [&] {
                          group.all_to_all(row, Counts{1, 0, 0}, Counts{1, 0, 0});
                        });
                        closed.count_down();
                        return;
                      }
                      auto arrived = group.start_all_to_all(row, Counts{0, 1, 0}, Counts{0, 1, 1});
                      under_way.count_down();
                      EXPECT_THROW(arrived(), dist::LostRank);
                      arrived = nullptr;  // it has the buffers
                      failed.count_down();
                      closed.wait();
                    },
                    {.timeout = std::chrono::seconds(10),
                     .silence = std::chrono::seconds(0),
                     .shared_memory = false});
  // An open connection would say that it timed out.
  testing::expect_says(said, {"rank 1 on", "lost another rank in all_to_all", "by peer"});
}

TEST_F(TwoRanks, DoNotWaitForEverForOneThatIsLate) {
  const auto failures = failures_on_ranks(2,
                                          [](const ProcessGroup& group) {
                                            if (group.rank() == 1)
                                              std::this_thread::sleep_for(std::chrono::seconds(4));
                                            group.all_reduce(torch::zeros({2}), Reduction::sum);
                                          },
                                          {.timeout = std::chrono::seconds(1)});
  ASSERT_TRUE(failures[0]);  // with more patience both ranks would have met
  EXPECT_THROW(std::rethrow_exception(failures[0]), dist::LostRank);
}

/// A rank that comes to the table of two ranks and counts three.
void expect_refused(const dist::KeyServer& table, int rank) {
  testing::expect_error(
      [&] {
        ProcessGroup::join({.rank = rank,
                            .size = 3,
                            .address = "127.0.0.1",
                            .port = table.port(),
                            .source = "RANK and WORLD_SIZE"},
                           {.start_timeout = std::chrono::seconds(20)});
      },
      {concat("rank ", rank, " on "), " counts 3 ranks (RANK and WORLD_SIZE), and the job at ",
       concat("127.0.0.1:", table.port(), " has 2; give all ranks of a job the same number")});
}

/// Two ranks that meet at a table. They exchange once and end when they are told to.
class TwoAt {
 public:
  explicit TwoAt(const dist::KeyServer& table) {
    for (const int rank : {0, 1})
      ranks_.push_back(std::async(std::launch::async, [this, &table, rank] { run(table, rank); }));
    joined_.wait();
  }
  ~TwoAt() { release(); }
  /// Waits for their end. Rethrows what ended one of them early.
  void end() {
    release();
    for (auto& rank : ranks_) rank.get();
  }

 private:
  void run(const dist::KeyServer& table, int rank) {
    std::optional<ProcessGroup> group;
    try {
      group = ProcessGroup::join(
          {.rank = rank, .size = 2, .address = "127.0.0.1", .port = table.port()},
          {.start_timeout = std::chrono::seconds(20)});
    } catch (...) {
      joined_.count_down();
      throw;
    }
    joined_.count_down();
    done_.wait();
    group->barrier("the end");
    group->leave();
  }
  void release() {
    if (!done_.try_wait()) done_.count_down();
  }

  std::latch joined_{2}, done_{1};
  std::vector<std::future<void>> ranks_;  // last: they use the others
};

TEST_F(TwoRanks, HaveToCountTheSameRanks) {
  const dist::KeyServer table = testing::table_of_job(2);
  expect_refused(table, 1);
  EXPECT_EQ(testing::error_of([&] {
              ProcessGroup::join(
                  {.rank = 0, .size = 2, .address = "127.0.0.1", .port = table.port()},
                  {.start_timeout = std::chrono::seconds(1)});
            }),
            "of 2 ranks these did not arrive in 1 s: 1; were they started?; rank 1 on " +
                dist::host_name() + " counts 3 ranks and was refused");
}

/// A second job was given the same MASTER_PORT. Its first rank cannot listen there, and its other
/// ranks find the table of the first job.
TEST_F(TwoRanks, GoOnWhereRanksOfALargerJobComeToTheirTable) {
  const dist::KeyServer table = testing::table_of_job(2);
  TwoAt ranks(table);
  for (const int rank : {1, 2}) expect_refused(table, rank);
  ranks.end();
}

TEST_F(TwoRanks, MeetWhereARankOfALargerJobCameFirst) {
  const dist::KeyServer table = testing::table_of_job(2);
  for (const int rank : {0, 1, 2}) expect_refused(table, rank);
  TwoAt(table).end();
}

TEST_F(TwoRanks, DoNotMeetAtATableOfOtherValues) {
  const dist::KeyServer table("127.0.0.1", 0);
  testing::expect_error(
      [&] {
        ProcessGroup::join({.rank = 1, .size = 2, .address = "127.0.0.1", .port = table.port()});
      },
      {concat("no ranks meet at 127.0.0.1:", table.port())});
}

/// Rank 0 comes by IPv6, if that is the first address of "localhost", and rank 1 by IPv4.
TEST_F(TwoRanks, MeetWhereTheyComeByDifferentProtocols) {
  const dist::Addresses addresses = dist::resolve_address("localhost", 0);
  if (addresses->ai_family != AF_INET6 || !testing::is_of_this_machine(*addresses))
    GTEST_SKIP() << "localhost is not ::1 first";
  const dist::KeyServer table("localhost", 0, dist::values_of_job(2));
  std::vector<std::future<void>> ranks;
  for (const int rank : {0, 1})
    ranks.push_back(std::async(std::launch::async, [&table, rank] {
      const auto group = ProcessGroup::join({.rank = rank,
                                             .size = 2,
                                             .address = rank == 0 ? "localhost" : "127.0.0.1",
                                             .port = table.port()},
                                            {.start_timeout = std::chrono::seconds(20)});
      EXPECT_EQ(group.address(), "127.0.0.1");
      group.barrier("the end");
      group.leave();
    }));
  for (auto& rank : ranks) rank.get();
}

TEST_F(TwoRanks, AreNamedWhereTheyDoNotArrive) {
  const dist::KeyServer table = testing::table_of_job(3);
  EXPECT_EQ(testing::error_of([&] {
              ProcessGroup::join(
                  {.rank = 0, .size = 3, .address = "127.0.0.1", .port = table.port()},
                  {.start_timeout = std::chrono::seconds(1)});
            }),
            "of 3 ranks these did not arrive in 1 s: 1, 2; were they started?");
}

/// "0x7f.1" is 127.0.0.1, and stands for a name that /etc/hosts gives to the loopback.
TEST_F(TwoRanks, AreToldThatTheNameLeadsToTheLoopback) {
  const dist::KeyServer table = testing::table_of_job(2);
  std::vector<std::string> heard;
  const GroupOptions options{
      .start_timeout = std::chrono::seconds(1),
      .waiting = [&](const std::string& missing) { heard.push_back(missing); },
      .waiting_after = std::chrono::milliseconds(20)};
  const std::string notice =
      "; MASTER_ADDR = 0x7f.1 leads to the loopback on this machine, which no other machine "
      "reaches";
  const dist::Identity alone{.rank = 0, .size = 2, .address = "0x7f.1", .port = table.port()};
  testing::expect_error([&] { ProcessGroup::join(alone, options); },
                        {"were they started?" + notice});
  ASSERT_GE(heard.size(), 1u);
  EXPECT_TRUE(heard[0].starts_with("of 2 ranks these have not arrived yet: 1" + notice))
      << heard[0];
}

TEST_F(TwoRanks, AreWaitedForAloud) {
  using namespace std::chrono_literals;
  const dist::KeyServer table = testing::table_of_job(4);
  dist::KeyClient other("127.0.0.1", table.port(), 1s);
  std::vector<std::string> heard;
  const GroupOptions options{.start_timeout = 1s,
                             .waiting =
                                 [&](const std::string& missing) {
                                   heard.push_back(missing);
                                   other.set("host/2", "4 elsewhere");
                                 },
                             .waiting_after = 20ms,
                             .waiting_every = 20ms};
  EXPECT_THROW(ProcessGroup::join(
                   {.rank = 0, .size = 4, .address = "127.0.0.1", .port = table.port()}, options),
               Error);
  ASSERT_GE(heard.size(), 2u);
  EXPECT_EQ(heard[0].find("of 4 ranks these have not arrived yet: 1, 2, 3; waiting up to "), 0u);
  EXPECT_EQ(heard[1].find("of 4 ranks these have not arrived yet: 1, 3; waiting up to "), 0u);
}

TEST_F(TwoRanks, AreRefusedWhereBothAreTheSame) {
  const dist::KeyServer table = testing::table_of_job(2);
  const dist::Identity same{.rank = 0,
                            .size = 2,
                            .address = "127.0.0.1",
                            .port = table.port(),
                            .source = "RANK and WORLD_SIZE"};
  const GroupOptions hasty{.start_timeout = std::chrono::seconds(1)};
  EXPECT_THROW(ProcessGroup::join(same, hasty), Error);  // the other rank does not arrive
  testing::expect_error([&] { ProcessGroup::join(same, hasty); }, {"rank 0 is there twice"});
}

TEST(Transport, IsAskedForOnlyByGroupsOfSeveral) {
  EXPECT_NO_THROW(dist::check_transport(1));
  if (dist::has_transport()) {
    EXPECT_NO_THROW(dist::check_transport(2));
    return;
  }
  testing::expect_error([&] { ProcessGroup::join({.size = 2, .address = "127.0.0.1"}); },
                        {"install libgloo-dev"});
}

}  // namespace
}  // namespace penstock
