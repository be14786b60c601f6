// The processes that train together, as a value: their ranks, and the collective operations on
// tensors between them. No code outside this folder knows how the bytes are transported.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/dist/group_options.h"
#include "penstock/dist/identity.h"
#include "penstock/dist/lost_rank.h"
#include "penstock/dist/pieces.h"
#include "penstock/dist/reduction.h"

namespace penstock::dist {

class Arrivals;
struct GroupState;
class GroupTable;
class KeyClient;

/// A group of ranks. Every rank must call the same operations in the same order, from one thread at
/// a time. With one process the operations return at once. They work on contiguous CPU tensors.
/// Each throws LostRank if a rank is gone or late. Copies share the connections.
class ProcessGroup {
 public:
  /// The group of this process alone.
  ProcessGroup();
  /// Waits for all ranks and connects them. Throws Error that names the ranks that did not arrive,
  /// or says that this build has no transport. With several ranks the process then ignores SIGPIPE,
  /// unless it has a handler, and its limit of open files is the hard limit.
  static ProcessGroup join(const Identity& identity, const GroupOptions& options = {});
  /// Announces the normal end of this rank to this group, to its parent and to groups split from
  /// it. A rank that ends without leave() has failed: all others lose it within seconds, in any
  /// wait.
  void leave() const;
  /// Tells the group that all ranks have agreed on a failure, so that no rank waits for another.
  void fail_together() const;
  bool failed_together() const;

  int rank() const;
  int size() const;
  /// "rank 3 on host7"; without an argument this rank's name.
  std::string name(int rank) const;
  std::string name() const { return name(rank()); }
  /// The address at which other ranks reach this machine; "" with one process.
  const std::string& address() const;
  /// Wall time in operations so far, including waiting for late ranks: the sum over this group, its
  /// parent and groups split from it.
  double seconds() const;
  /// The same for this group alone.
  double own_seconds() const;
  /// The table in which all ranks report that they are alive; null with one process.
  const std::shared_ptr<GroupTable>& table() const;
  /// Splits off the ranks with the same color, in their order here. This group stays usable. Every
  /// rank must call it. @param axis  the axis of the split, for errors
  /// @param timeout  for late ranks in the new group's operations; default: this group's
  ProcessGroup split(const std::string& axis, int color,
                     std::optional<std::chrono::seconds> timeout = std::nullopt) const;

  /// Reduces in place, f32|f64|i32|i64, in rank order; all ranks get the same bits.
  void all_reduce(const at::Tensor& values, Reduction reduction) const;
  /// Sends rows to every rank and returns the rows from every rank, both in rank order.
  /// @param rows         [Σ send_counts, ...]
  /// @param send_counts  [size], rows for each rank; 0 is allowed
  /// @param counts       [size], rows from each rank; empty: another operation finds them
  /// @return [Σ counts, ...]
  at::Tensor all_to_all(const at::Tensor& rows, std::span<const std::int64_t> send_counts,
                        std::span<const std::int64_t> counts = {}) const;
  /// Starts all_to_all() and returns a function that waits for it and gives the rows. No other
  /// operation of this group may run until then (asserted).
  std::function<at::Tensor()> start_all_to_all(const at::Tensor& rows,
                                               std::span<const std::int64_t> send_counts,
                                               std::span<const std::int64_t> counts) const;
  /// The same from and to several tensors, without a copy. The returned function waits until
  /// `received` is filled.
  /// @param received, sent  by rank. Sender and receiver must have the same number of bytes; they
  ///   may divide them into different pieces.
  std::function<void()> start_all_to_all(const std::vector<Pieces>& received,
                                         const std::vector<Pieces>& sent) const;
  /// @param mine  of the same shape on all ranks.  @return [size, ...]
  at::Tensor all_gather(const at::Tensor& mine) const;
  /// The same into several tensors. Ranks may send different numbers of bytes.
  /// @param received  by rank, of sizes that all ranks know; this rank's may be `mine`
  void all_gather(const std::vector<Pieces>& received, const Pieces& mine) const;
  /// Reduce-scatter: Σ over ranks, in rank order, of this rank's rows.
  /// @param rows    [Σ counts, ...], the same shape on all ranks
  /// @param counts  [size], rows of each rank.  @return [counts[rank], ...]
  at::Tensor reduce_scatter(const at::Tensor& rows, std::span<const std::int64_t> counts) const;
  /// Broadcasts the root's tensor in place.
  void broadcast(const at::Tensor& values, int root = 0) const;
  /// Sends to one other rank, which must receive a tensor of this shape and type. It may block
  /// until that rank receives. Messages between two ranks keep their order.
  void send(const at::Tensor& values, int to) const;
  /// Starts send() and returns a function that waits for it. The tensor must not change until then.
  /// With it two ranks can send to each other before either receives.
  std::function<void()> start_send(const at::Tensor& values, int to) const;
  void receive(const at::Tensor& values, int from) const;
  /// Memory that all ranks of the group read and write, zeros at first. Every rank calls it with
  /// the same size. The tensor, [bytes] of kByte, keeps the memory alive. It is undefined with one
  /// process, and if the ranks cannot share memory (several machines).
  at::Tensor shared_bytes(std::int64_t bytes) const;
  /// A barrier. Throws Error if the ranks give different places.
  void barrier(const std::string& place) const;

  /// Every rank's bytes, of any length, in rank order.
  std::vector<std::string> gather(const std::string& mine) const;
  /// Broadcasts the root's bytes.
  std::string broadcast_bytes(const std::string& mine, int root = 0) const;

 private:
  void meet(const Identity& identity, const GroupOptions& options);
  void connect(const std::shared_ptr<KeyClient>& table);
  void learn_names(Arrivals& arrivals);
  [[noreturn]] void lose(const char* what, const std::string& reason) const;
  /// @param alike  whether all ranks call the operation; GroupOptions::check then compares
  ///               the calls
  template <class Action>
  void operate(const char* what, const at::Tensor& values, const Action& action,
               bool alike = true) const;
  void check_alike(const char* what, const at::Tensor& values) const;
  /// @param alike  the tensor that GroupOptions::check compares
  std::function<void()> start_exchange(const at::Tensor& alike, const std::vector<Pieces>& received,
                                       const std::vector<Pieces>& sent) const;
  void gather_into(const at::Tensor& alike, const std::vector<Pieces>& received,
                   const Pieces& mine) const;

  std::shared_ptr<GroupState> state_;
};

}  // namespace penstock::dist
