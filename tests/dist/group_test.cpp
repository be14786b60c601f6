// Collective operations between ranks: what they return, what they compare, and what a rank says
// that is alone, late or left.
#include "penstock/dist/group.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>
#include <torch/types.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <latch>
#include <numeric>
#include <string>

#include "penstock/dist/group_table.h"
#include "tests/dist/ranks.h"

namespace penstock {
namespace {

using dist::GroupOptions;
using dist::Pieces;
using dist::ProcessGroup;
using dist::Reduction;
using testing::failures_on_ranks;
using testing::on_ranks;
using Counts = std::vector<std::int64_t>;

std::string message_of(const std::exception_ptr& failure) {
  if (!failure) return "nothing";
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  }
}

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
    // Rank r sends (r + to) mod 3 rows, each naming both: some send and receive nothing.
    Counts counts;
    std::vector<at::Tensor> rows = {torch::empty({0, 2}, at::kLong)};
    for (int to = 0; to < size; ++to) {
      counts.push_back((group.rank() + to) % 3);
      rows.push_back(torch::tensor({group.rank(), to}, at::kLong).expand({counts.back(), 2}));
    }
    const at::Tensor sent = torch::cat(rows).contiguous();
    const at::Tensor found = group.all_to_all(sent, counts);
    EXPECT_TRUE(torch::equal(found, group.all_to_all(sent, counts, counts)));  // symmetric
    std::int64_t row = 0;
    for (int from = 0; from < size; ++from)
      for (int i = 0; i < (group.rank() + from) % 3; ++i, ++row) {
        EXPECT_EQ(found[row][0].item<int>(), from);
        EXPECT_EQ(found[row][1].item<int>(), group.rank());
      }
    EXPECT_EQ(found.size(0), row);
  });
}

/// Whoever starts goes on though others have not: each rank but the last waits, once it has
/// started, for that one, which starts when all others have.
TEST_P(Group, ExchangesRowsWhileRanksGoOn) {
  const int size = GetParam();
  std::latch started(size - 1);
  const auto action = [&](const ProcessGroup& group) {
    for (const std::int64_t rows : {3, 50000}) {  // by sockets' buffers, and beyond them
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
  // Not compared before, which waits for all.
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

/// Of as many numbers as the sum of the ranks, counted from 100 times the sender; in so many
/// pieces.
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
    for (const std::int64_t scale : {1, 20000}) {  // the second by shared memory
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
    for (const std::size_t length : {std::size_t{0}, std::size_t{3}, std::size_t{5000}}) {
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

class TwoRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  }
};

/// A thread that read sockets at once would interrupt one that sends and holds a lock.
TEST_F(TwoRanks, HaveThreadsThatInterruptNobody) {
  on_ranks(2, [](const ProcessGroup&) {
    EXPECT_EQ(::sched_getscheduler(0), SCHED_OTHER);
    int patient = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
      patient += ::sched_getscheduler(std::stoi(task.path().filename())) == SCHED_BATCH ? 1 : 0;
    EXPECT_GT(patient, 0);
  });
}

/// Gloo writes to connections that the other side, or Links::cut, may just have ended.
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
  EXPECT_NE(message_of(shapes[0]).find("calls all_reduce (sum) of Float [2], rank 1 on"),
            std::string::npos)
      << message_of(shapes[0]);
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
  EXPECT_NE(message_of(kinds[1]).find("calls all_gather of Float [2], rank 0 on"),
            std::string::npos)
      << message_of(kinds[1]);
  const auto counts = failures_on_ranks(
      2,
      [](const ProcessGroup& group) {
        group.all_to_all(torch::zeros({2, 3}), Counts{1, 1}, Counts{1, group.rank() + 1});
      },
      checked);
  EXPECT_NE(message_of(counts[1]).find("expects 2 rows from rank 1"), std::string::npos)
      << message_of(counts[1]);
  const auto places = failures_on_ranks(
      2, [](const ProcessGroup& group) { group.barrier(group.rank() == 0 ? "here" : "there"); },
      checked);
  EXPECT_NE(message_of(places[0]).find("waits at 'here', rank 1 on"), std::string::npos)
      << message_of(places[0]);
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
  EXPECT_NE(message_of(failures[0]).find("lost another rank in all_reduce (sum)"),
            std::string::npos)
      << message_of(failures[0]);
}

/// Gloo tells no thread that waits to send that the other side is gone.
TEST_F(TwoRanks, NameTheOneThatFailsAndWaitForNothingOfIt) {
  for (const bool sends : {true, false}) {
    const auto start = std::chrono::steady_clock::now();
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
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  }
}

/// Wherever the bytes of a large message are when the links are cut.
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

TEST_F(TwoRanks, DoNotWaitForEverForOneThatIsLate) {
  const auto start = std::chrono::steady_clock::now();
  const auto failures = failures_on_ranks(2,
                                          [](const ProcessGroup& group) {
                                            if (group.rank() == 1)
                                              std::this_thread::sleep_for(std::chrono::seconds(4));
                                            group.all_reduce(torch::zeros({2}), Reduction::sum);
                                          },
                                          {.timeout = std::chrono::seconds(1)});
  EXPECT_THROW(std::rethrow_exception(failures[0]), dist::LostRank);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
}

TEST_F(TwoRanks, HaveToCountTheSameRanks) {
  const dist::KeyServer table("127.0.0.1", 0);
  std::string said = "accepted";
  std::thread other([&] {
    EXPECT_THROW(
        ProcessGroup::join({.rank = 1, .size = 3, .address = "127.0.0.1", .port = table.port()},
                           {.start_timeout = std::chrono::seconds(20)}),
        Error);
  });
  try {
    ProcessGroup::join({.rank = 0, .size = 2, .address = "127.0.0.1", .port = table.port()},
                       {.start_timeout = std::chrono::seconds(20)});
  } catch (const Error& error) {
    said = error.what();
  }
  other.join();
  EXPECT_NE(said.find("counts 3 ranks, rank 0 counts 2"), std::string::npos) << said;
}

TEST_F(TwoRanks, AreNamedWhereTheyDoNotArrive) {
  const dist::KeyServer table("127.0.0.1", 0);
  try {
    ProcessGroup::join({.rank = 0, .size = 3, .address = "127.0.0.1", .port = table.port()},
                       {.start_timeout = std::chrono::seconds(1)});
    FAIL() << "a group of three with one rank";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "of 3 ranks these did not arrive in 1 s: 1, 2; were they started?");
  }
}

TEST_F(TwoRanks, AreWaitedForAloud) {
  using namespace std::chrono_literals;
  const dist::KeyServer table("127.0.0.1", 0);
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
  const dist::KeyServer table("127.0.0.1", 0);
  const dist::Identity same{.rank = 0,
                            .size = 2,
                            .address = "127.0.0.1",
                            .port = table.port(),
                            .source = "RANK and WORLD_SIZE"};
  const GroupOptions hasty{.start_timeout = std::chrono::seconds(1)};
  EXPECT_THROW(ProcessGroup::join(same, hasty), Error);  // alone
  try {
    ProcessGroup::join(same, hasty);
    FAIL() << "two ranks 0";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 0 is there twice"), std::string::npos)
        << error.what();
  }
}

TEST(Transport, IsAskedForOnlyByGroupsOfSeveral) {
  EXPECT_NO_THROW(dist::check_transport(1));
  if (dist::has_transport()) {
    EXPECT_NO_THROW(dist::check_transport(2));
    return;
  }
  try {
    ProcessGroup::join({.size = 2, .address = "127.0.0.1"});
    FAIL() << "a group without a transport";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("install libgloo-dev"), std::string::npos);
  }
}

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
