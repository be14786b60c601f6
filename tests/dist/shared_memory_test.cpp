// Messages through shared memory between ranks: they arrive whole while their sizes grow and
// shrink, and no socket carries them.
#include "penstock/dist/shared_memory.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/dist/pieces.h"
#include "tests/base/error_of.h"

namespace penstock::dist {
namespace {

constexpr int kRanks = 3;
/// Of a group that other ranks of the run are not in.
const std::vector<std::string> kNames = {"rank 4 on a", "rank 6 on a", "rank 8 on a"};

/// The messages that ranks leave for each other. The ranks are threads.
struct Board {
  std::barrier<> barrier{kRanks};
  std::array<std::vector<Pieces>, kRanks> sent;
};

/// A transport between threads that carries small messages only. It fails for a large one.
class Carrier : public Transport {
 public:
  Carrier(Board& board, int rank) : board_(board), rank_(static_cast<std::size_t>(rank)) {}
  void all_gather(std::vector<Pieces> received, Pieces sent) override {
    exchange(received, std::vector<Pieces>(kRanks, sent));
  }
  std::function<void()> start_all_to_all(std::vector<Pieces> received,
                                         std::vector<Pieces> sent) override {
    return [this, received, sent] { exchange(received, sent); };
  }
  std::function<void()> start_send(at::Tensor, int) override { fail("not expected"); }
  void receive(at::Tensor, int) override { fail("not expected"); }

 private:
  void exchange(const std::vector<Pieces>& received, const std::vector<Pieces>& sent) {
    for (const Pieces& to_rank : sent) PENSTOCK_CHECK(total_bytes(to_rank) < 32 << 10, "large");
    board_.sent[rank_] = sent;
    board_.barrier.arrive_and_wait();
    for (std::size_t from = 0; from < kRanks; ++from) {
      const at::Tensor all = at::cat(board_.sent[from][rank_]);
      std::int64_t place = 0;
      for (const at::Tensor& piece : received[from]) {
        piece.copy_(all.narrow(0, place, piece.numel()));
        place += piece.numel();
      }
    }
    board_.barrier.arrive_and_wait();
  }

  Board& board_;
  std::size_t rank_;
};

void on_threads(const std::function<void(Transport&, int rank)>& action) {
  Board board;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      const auto carrier = std::make_shared<Carrier>(board, rank);
      const auto transport = with_shared_memory(carrier, rank, kNames);
      EXPECT_NE(transport, carrier);
      action(*transport, rank);
    });
  for (auto& thread : threads) thread.join();
}

/// The number of bytes that rank `from` sends to rank `to` in operation `operation`.
std::int64_t bytes_of(int operation, int from, int to) {
  const std::int64_t scale = operation % 3 == 1 ? 100000 : 10;
  return (from + 2 * to + operation) % 4 * scale * (operation + 1);
}

/// `bytes` divided into about `pieces` pieces. The sender and the receiver divide differently.
Pieces cut(const at::Tensor& bytes, std::int64_t pieces) {
  const std::int64_t each = std::max<std::int64_t>(1, bytes.numel() / pieces);
  Pieces out;
  for (const at::Tensor& piece : bytes.split(each)) out.push_back(piece.clone());
  return out;
}

/// The files in memory that this process has open.
int open_memories() {
  int out = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the descriptor of the iterator itself, and those of other threads
    const auto file = std::filesystem::read_symlink(entry.path(), gone);
    out += file.string().starts_with("/memfd:penstock") ? 1 : 0;
  }
  return out;
}

/// Of other ranks' memory no file stays open. A message that needs more of it maps it without one.
TEST(SharedMemory, KeepsOnlyARanksOwnTwoFilesOpen) {
  on_threads([](Transport& transport, int) {
    const auto gather = [&](std::int64_t bytes) {
      std::vector<Pieces> received;
      for (int rank = 0; rank < kRanks; ++rank) received.push_back({at::empty({bytes}, at::kByte)});
      transport.all_gather(received, {at::ones({bytes}, at::kByte)});
    };
    for (const std::int64_t bytes : {100000, 200000, 300000, 400000}) gather(bytes);
    const at::Tensor shared = transport.shared_bytes(100000);
    gather(1);  // by then all ranks have closed the file of the shared memory
    EXPECT_TRUE(shared.defined());
    EXPECT_EQ(open_memories(), 2 * kRanks);
    gather(1);  // the other ranks have counted
  });
}

TEST(SharedMemory, CarriesPiecesOfAnySizeToEveryRank) {
  on_threads([](Transport& transport, int rank) {
    for (int operation = 0; operation < 12; ++operation) {
      std::vector<Pieces> sent, received;
      for (int other = 0; other < kRanks; ++other) {
        const at::Tensor bytes = at::arange(bytes_of(operation, rank, other)) + 16 * rank + other;
        sent.push_back(cut(bytes.to(at::kByte), 1 + operation % 3));
        received.push_back(cut(at::zeros({bytes_of(operation, other, rank)}, at::kByte), 2));
      }
      transport.start_all_to_all(received, sent)();
      for (int from = 0; from < kRanks; ++from) {
        const at::Tensor expected = at::arange(bytes_of(operation, from, rank)) + 16 * from + rank;
        EXPECT_TRUE(
            torch::equal(at::cat(received[static_cast<std::size_t>(from)]), expected.to(at::kByte)))
            << operation;
      }
    }
  });
}

TEST(SharedMemory, ReadsNothingWhereRanksExpectOtherSizes) {
  on_threads([](Transport& transport, int rank) {
    const auto bytes = [](std::int64_t count) { return Pieces{at::zeros({count}, at::kByte)}; };
    // Rank 0 sends 100,000 bytes to each rank. Rank 2 expects 300,000.
    std::vector<Pieces> sent(kRanks, bytes(rank == 0 ? 100000 : 8)), received(kRanks, bytes(8));
    received[0] = bytes(rank == 2 ? 300000 : 100000);
    const auto arrived = transport.start_all_to_all(received, sent);
    if (rank == 2)
      EXPECT_EQ(testing::error_of(arrived),
                "rank 4 on a has 100000 bytes for rank 8 on a, which expects 300000");
    else
      arrived();
  });
}

TEST(SharedMemory, GathersLargeTensorsOfDifferentSizes) {
  on_threads([](Transport& transport, int rank) {
    for (const std::int64_t size : {100, 50000, 9000, 400000, 50000}) {
      const auto values = [size](int of) {
        return (at::arange(size / (1 + of)) % 200 + of).to(at::kByte);
      };
      std::vector<Pieces> received;
      for (int other = 0; other < kRanks; ++other)
        received.push_back(cut(at::zeros_like(values(other)), 3));
      transport.all_gather(received, cut(values(rank), 2));
      for (int other = 0; other < kRanks; ++other)
        EXPECT_TRUE(
            torch::equal(at::cat(received[static_cast<std::size_t>(other)]), values(other)));
    }
  });
}

TEST(SharedMemory, IsOneMemoryForAllRanks) {
  on_threads([](Transport& transport, int rank) {
    const at::Tensor first = transport.shared_bytes(100000), second = transport.shared_bytes(64);
    ASSERT_TRUE(first.defined() && second.defined());
    EXPECT_EQ(first.sum().item<std::int64_t>(), 0);
    const auto meet = [&] {
      const Pieces all = at::zeros({kRanks}, at::kByte).split(1);
      transport.all_gather(std::vector<Pieces>(kRanks, {all[0]}), {at::zeros({1}, at::kByte)});
    };
    meet();
    first.slice(0, rank, 100000, kRanks).fill_(rank + 1);
    second[rank].fill_(7 * rank);
    meet();
    for (int of = 0; of < kRanks; ++of) {
      EXPECT_TRUE(first.slice(0, of, 100000, kRanks).eq(of + 1).all().item<bool>());
      EXPECT_EQ(second[of].item<int>(), 7 * of);
    }
  });
}

}  // namespace
}  // namespace penstock::dist
