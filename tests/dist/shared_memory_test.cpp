// Shared memory between ranks: what arrives, in sizes that grow and shrink, and that no socket
// carries it.
#include "penstock/dist/shared_memory.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <barrier>
#include <numeric>
#include <thread>

#include "penstock/base/error.h"

namespace penstock::dist {
namespace {

constexpr int kRanks = 3;

/// What ranks that are threads leave for each other.
struct Board {
  std::barrier<> barrier{kRanks};
  std::array<at::Tensor, kRanks> sent;
};

/// Carries numbers between threads, and nothing large.
class Carrier : public Transport {
 public:
  Carrier(Board& board, int rank) : board_(board), rank_(static_cast<std::size_t>(rank)) {}
  void all_gather(std::vector<at::Tensor> received, at::Tensor sent) override {
    PENSTOCK_CHECK(sent.nbytes() < 32 << 10, "large");
    board_.sent[rank_] = sent;
    board_.barrier.arrive_and_wait();
    for (std::size_t rank = 0; rank < kRanks; ++rank) received[rank].copy_(board_.sent[rank]);
    board_.barrier.arrive_and_wait();
  }
  void all_reduce(at::Tensor, Reduction) override { fail("not expected"); }
  std::function<void()> start_all_to_all(at::Tensor received, at::Tensor sent,
                                         std::vector<std::int64_t> counts,
                                         std::vector<std::int64_t>) override {
    return [this, received, sent, counts] {
      std::vector<at::Tensor> all(kRanks);
      for (at::Tensor& tensor : all) tensor = at::empty_like(sent);
      all_gather(all, sent);
      std::int64_t place = 0;
      for (std::size_t rank = 0; rank < kRanks; place += counts[rank], ++rank)
        received.narrow(0, place, counts[rank])
            .copy_(all[rank].narrow(0, counts[0] * static_cast<std::int64_t>(rank_), counts[0]));
    };
  }
  void broadcast(at::Tensor, int) override { fail("not expected"); }
  std::function<void()> start_send(at::Tensor, int) override { fail("not expected"); }
  void receive(at::Tensor, int) override { fail("not expected"); }

 private:
  Board& board_;
  std::size_t rank_;
};

void on_threads(const std::function<void(Transport&, int rank)>& action) {
  Board board;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      const auto carrier = std::make_shared<Carrier>(board, rank);
      const auto transport = with_shared_memory(carrier, rank, kRanks);
      EXPECT_NE(transport, carrier);
      action(*transport, rank);
    });
  for (auto& thread : threads) thread.join();
}

/// Bytes that one rank sends another in that operation.
std::int64_t bytes_of(int operation, int from, int to) {
  const std::int64_t scale = operation % 3 == 1 ? 100000 : 10;
  return (from + 2 * to + operation) % 4 * scale * (operation + 1);
}

TEST(SharedMemory, CarriesRowsOfAnySizeToEveryRank) {
  on_threads([](Transport& transport, int rank) {
    for (int operation = 0; operation < 12; ++operation) {
      std::vector<std::int64_t> counts, send_counts;
      std::vector<at::Tensor> sent = {at::empty({0}, at::kByte)};
      for (int other = 0; other < kRanks; ++other) {
        counts.push_back(bytes_of(operation, other, rank));
        send_counts.push_back(bytes_of(operation, rank, other));
        sent.push_back(at::full({send_counts.back()}, 16 * rank + other + operation, at::kByte));
      }
      const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
      const at::Tensor received = at::zeros({total}, at::kByte);
      const auto wait = transport.start_all_to_all(received, at::cat(sent), counts, send_counts);
      wait();
      std::int64_t place = 0;
      for (int from = 0; from < kRanks; ++from) {
        const std::int64_t bytes = counts[static_cast<std::size_t>(from)];
        EXPECT_TRUE(received.slice(0, place, place + bytes)
                        .eq(16 * from + rank + operation)
                        .all()
                        .item<bool>())
            << operation;
        place += bytes;
      }
    }
  });
}

TEST(SharedMemory, GathersLargeTensors) {
  on_threads([](Transport& transport, int rank) {
    for (const std::int64_t size : {100, 50000, 9000, 400000, 50000}) {
      std::vector<at::Tensor> received;
      for (int other = 0; other < kRanks; ++other) received.push_back(at::zeros({size}));
      transport.all_gather(received, at::full({size}, static_cast<double>(size + rank)));
      for (int other = 0; other < kRanks; ++other)
        EXPECT_TRUE(torch::equal(received[static_cast<std::size_t>(other)],
                                 at::full({size}, static_cast<double>(size + other))));
    }
  });
}

}  // namespace
}  // namespace penstock::dist
