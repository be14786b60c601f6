// The interface of a process group's transport. gloo.cpp implements it; builds without Gloo's
// headers have no transport.
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

/// Moves bytes between ranks, in contiguous tensors of bytes. Pieces may be empty, and sender and
/// receiver may divide the same bytes differently. Each operation throws an exception if a rank is
/// gone or late.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Runs in the background. The returned function waits until `received` is filled, and keeps the
  /// tensors alive. Only one may run at a time, and no all_gather may run until it is done.
  /// @param received, sent  by rank
  virtual std::function<void()> start_all_to_all(std::vector<Pieces> received,
                                                 std::vector<Pieces> sent) = 0;
  /// @param received  by rank; this rank's entry may be the memory of `sent`
  virtual void all_gather(std::vector<Pieces> received, Pieces sent) = 0;
  /// Runs in the background. The returned function waits until the tensor has been sent. Messages
  /// from one rank to another keep their order. A message has at least one byte.
  virtual std::function<void()> start_send(at::Tensor values, int to) = 0;
  virtual void receive(at::Tensor values, int from) = 0;
  /// See ProcessGroup::shared_bytes(). By default there is none, and the tensor is undefined.
  virtual at::Tensor shared_bytes(std::int64_t) { return {}; }
};

/// Whether this build can connect processes.
bool has_transport();
/// Throws Error, which says what to install, if this build cannot connect `processes` processes.
void check_transport(int processes);

/// Connects all ranks. Each rank reads the others' addresses from the table.
/// @param world  records the connections; if it has lost a rank, the function does not wait
/// REQUIRES: has_transport().
std::shared_ptr<Transport> make_transport(std::shared_ptr<KeyClient> table, int rank, int size,
                                          std::chrono::milliseconds timeout,
                                          const std::shared_ptr<GroupTable>& world);

}  // namespace penstock::dist
