// The processes that train together, as a value: who they are, and the collective operations on
// tensors between them. Nothing above this folder knows what carries the bytes.
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

/// Every rank calls the same operations in the same order, from one thread at a time. With one
/// process they return at once. They work on contiguous tensors on the CPU. Each throws LostRank
/// where a rank is gone or late. Copies share the connections.
class ProcessGroup {
 public:
  /// This process alone.
  ProcessGroup();
  /// Waits for all ranks and connects them. Throws Error that names the ranks that did not arrive,
  /// and where this build lacks what carries the bytes. With several ranks the process ignores
  /// SIGPIPE from then on, unless it has a handler of its own.
  static ProcessGroup join(const Identity& identity, const GroupOptions& options = {});
  /// This rank is done with this group, with the one that it was made from and with those that were
  /// made from it. One that ends otherwise has failed: all others lose it, within seconds and in
  /// whatever they wait for.
  void leave() const;
  /// All ranks have settled that what they do together failed, so that none waits for another in
  /// it.
  void fail_together() const;
  bool failed_together() const;

  int rank() const;
  int size() const;
  /// "rank 3 on host7"; of this rank without an argument.
  std::string name(int rank) const;
  std::string name() const { return name(rank()); }
  /// The address at which other ranks reach this machine; "" with one process.
  const std::string& address() const;
  /// Wall time in operations so far, waiting for ranks that are late included; of this group, of
  /// the one that it was made from and of those that were made from it, together.
  double seconds() const;
  /// The same of this group alone.
  double own_seconds() const;
  /// The table in which all ranks report that they are alive; null with one process.
  const std::shared_ptr<GroupTable>& table() const;
  /// The ranks that say the same color, in their order here; this group goes on beside it. Every
  /// rank calls it. @param axis  what the groups differ in, for errors
  /// @param timeout  for a rank that is late in an operation of theirs; of this group without it
  ProcessGroup split(const std::string& axis, int color,
                     std::optional<std::chrono::seconds> timeout = std::nullopt) const;

  /// In place, f32|f64|i32|i64, in rank order; the same bits on all ranks.
  void all_reduce(const at::Tensor& values, Reduction reduction) const;
  /// Rows for every rank, in rank order, for rows from every rank, in rank order.
  /// @param rows         [Σ send_counts, ...]
  /// @param send_counts  [size], rows for each rank; 0 is allowed
  /// @param counts       [size], rows from each rank; empty: found by another operation
  /// @return [Σ counts, ...]
  at::Tensor all_to_all(const at::Tensor& rows, std::span<const std::int64_t> send_counts,
                        std::span<const std::int64_t> counts = {}) const;
  /// all_to_all() that goes on beside what follows. What it returns waits, and gives the rows. No
  /// other operation of this group until then (asserted).
  std::function<at::Tensor()> start_all_to_all(const at::Tensor& rows,
                                               std::span<const std::int64_t> send_counts,
                                               std::span<const std::int64_t> counts) const;
  /// The same from and to tensors that lie apart, without a copy between. What it returns waits
  /// until `received` is filled.
  /// @param received, sent  by rank. What two ranks have for each other is as many bytes on both
  ///   sides, cut as each likes.
  std::function<void()> start_all_to_all(const std::vector<Pieces>& received,
                                         const std::vector<Pieces>& sent) const;
  /// @param mine  of the same shape on all ranks.  @return [size, ...]
  at::Tensor all_gather(const at::Tensor& mine) const;
  /// The same from and to tensors that lie apart. Ranks may send different numbers of bytes.
  /// @param received  by rank, of sizes that all ranks know; this rank's may be `mine`
  void all_gather(const std::vector<Pieces>& received, const Pieces& mine) const;
  /// Σ over ranks, in rank order, of the rows of this rank.
  /// @param rows    [Σ counts, ...], alike on all ranks
  /// @param counts  [size], rows of each rank.  @return [counts[rank], ...]
  at::Tensor reduce_scatter(const at::Tensor& rows, std::span<const std::int64_t> counts) const;
  /// In place, what the root has.
  void broadcast(const at::Tensor& values, int root = 0) const;
  /// To one other rank, which receives a tensor of this shape and type. It may return only once
  /// that rank does, and between two ranks the order is kept.
  void send(const at::Tensor& values, int to) const;
  /// send() that goes on beside what follows. The tensor must not change until what it returns has
  /// been called, which waits; ranks may so send to each other before either receives.
  std::function<void()> start_send(const at::Tensor& values, int to) const;
  void receive(const at::Tensor& values, int from) const;
  /// Returns once all ranks are there. Throws Error where they name different places.
  void barrier(const std::string& place) const;

  /// Every rank's bytes, of any length, in rank order.
  std::vector<std::string> gather(const std::string& mine) const;
  /// The root's bytes.
  std::string broadcast_bytes(const std::string& mine, int root = 0) const;

 private:
  void meet(const Identity& identity, const GroupOptions& options);
  void connect(const std::shared_ptr<KeyClient>& table);
  void learn_names(Arrivals& arrivals, const Identity& identity);
  [[noreturn]] void lose(const char* what, const std::string& reason) const;
  /// @param alike  all ranks call it: it is compared where that is asked for
  template <class Action>
  void operate(const char* what, const at::Tensor& values, const Action& action,
               bool alike = true) const;
  void check_alike(const char* what, const at::Tensor& values) const;
  /// @param alike  what GroupOptions::check compares
  std::function<void()> start_exchange(const at::Tensor& alike, const std::vector<Pieces>& received,
                                       const std::vector<Pieces>& sent) const;
  void gather_into(const at::Tensor& alike, const std::vector<Pieces>& received,
                   const Pieces& mine) const;

  std::shared_ptr<GroupState> state_;
};

}  // namespace penstock::dist
