// The transport of a process group. gloo.cpp is the only one; builds without Gloo's headers have
// none.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "penstock/dist/group_table.h"
#include "penstock/dist/key_server.h"
#include "penstock/dist/pieces.h"

namespace penstock::dist {

/// Moves bytes, in contiguous tensors of them. What is moved in pieces may be nothing, and need not
/// be cut alike on both sides. Each operation throws an exception where a rank is gone or late.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Goes on beside what follows; what it returns waits until `received` is filled, and holds the
  /// tensors. One at a time, and no all_gather until then.
  /// @param received, sent  by rank
  virtual std::function<void()> start_all_to_all(std::vector<Pieces> received,
                                                 std::vector<Pieces> sent) = 0;
  /// @param received  by rank; this rank's may be the very memory of `sent`
  virtual void all_gather(std::vector<Pieces> received, Pieces sent) = 0;
  /// Goes on beside what follows; what it returns waits until the tensor has left. Messages of one
  /// rank to another keep their order, and have a byte at least.
  virtual std::function<void()> start_send(at::Tensor values, int to) = 0;
  virtual void receive(at::Tensor values, int from) = 0;
};

/// Whether this build can connect processes.
bool has_transport();
/// Throws Error, which says what to install, if this build cannot connect `processes` processes.
void check_transport(int processes);

/// Connects all ranks, which ask the table where the others listen.
/// @param world  learns the connections; nobody is waited for where it has lost a rank
/// REQUIRES: has_transport().
std::shared_ptr<Transport> make_transport(std::shared_ptr<KeyClient> table, int rank, int size,
                                          std::chrono::milliseconds timeout,
                                          const std::shared_ptr<GroupTable>& world);

}  // namespace penstock::dist
