// Ranks as threads of a test, connected as processes would be.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "penstock/dist/group.h"
#include "penstock/dist/group_table.h"
#include "penstock/dist/key_server.h"
#include "penstock/dist/transport.h"

namespace penstock::testing {

/// A table of ranks on this machine, for a job of `ranks` ranks.
inline dist::KeyServer table_of_job(int ranks) {
  return dist::KeyServer("127.0.0.1", 0, dist::values_of_job(ranks));
}

/// Calls action(group) once for each rank, in parallel, and returns each rank's exception.
inline std::vector<std::exception_ptr> failures_on_ranks(
    int size, const std::function<void(const dist::ProcessGroup&)>& action,
    const dist::GroupOptions& options) {
  const dist::KeyServer table = table_of_job(size);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        const auto group = dist::ProcessGroup::join(
            {.rank = rank, .size = size, .address = "127.0.0.1", .port = table.port()}, options);
        action(group);
        group.leave();
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  return failures;
}

/// Like failures_on_ranks(), by default with shapes compared before every operation. Rethrows the
/// first failure.
inline void on_ranks(int size, const std::function<void(const dist::ProcessGroup&)>& action,
                     const dist::GroupOptions& options = {.check = true}) {
  for (const auto& failure : failures_on_ranks(size, action, options))
    if (failure) std::rethrow_exception(failure);
}

/// The base of fixtures of tests with several ranks. Skips the tests in a build without Gloo.
template <class Base = ::testing::Test>
class RanksTest : public Base {
 protected:
  void SetUp() override {
    if (!dist::has_transport()) GTEST_SKIP() << "built without Gloo";
  }
};

}  // namespace penstock::testing
