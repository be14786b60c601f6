// Estimates the bytes that one rank of a layout sends in a step, by kind, and the seconds that they
// take. Nothing is sent or measured here. rank_estimate.h adds the kinds up.
#pragma once

#include "penstock/dist/mesh.h"
#include "penstock/train/layouts/machine_speeds.h"

namespace penstock::rank_traffic {

inline constexpr double kBytes = 4;  ///< bytes of a number

// Memory traffic in bytes for a byte sent. A rank receives as many bytes as it sends.
inline constexpr double kPacked = 2;      ///< one read, one written
inline constexpr double kAddedUp = 3;     ///< two read, one written
inline constexpr double kPutInPlace = 2;  ///< one read, one written

/// The share of a group's other ranks that are on other machines. Neighbours in the group are
/// `stride` ranks apart.
double share_elsewhere(int ranks, int stride, const MachineSpeeds& speeds);

double seconds_of_memory(double bytes, const MachineSpeeds& speeds);

/// One kind of a rank's traffic: the bytes sent, those of them sent to other machines, the number
/// of messages, and the bytes of its own memory that the rank reads and writes for them.
struct Sent {
  const char* kind;
  double bytes = 0, elsewhere = 0, messages = 0, memory = 0;

  /// @param more  bytes;  @param share  their share to other machines;  @param touched  bytes of
  /// memory traffic for a byte sent
  void add(double more, double share, double more_messages, double touched = 0);

  /// bytes on this machine / node_bandwidth + bytes elsewhere / bandwidth + messages · latency
  ///   + memory / memory_bandwidth
  double seconds(const MachineSpeeds& speeds) const;

  /// The part of these seconds that takes a computing core's time.
  double processor_seconds(const MachineSpeeds& speeds) const;
};

/// Traffic between ranks that divide heads and neurons. An all-reduce sends as many bytes as a
/// reduce-scatter and an all-gather of divided rows.
/// @param sums  number of all-reduces;  @param numbers  elements of all of them together
Sent of_tensor(double sums, double numbers, const dist::Layout& layout,
               const MachineSpeeds& speeds);

/// Traffic between stages. If any two neighbouring stages are on different machines, their messages
/// determine the time of all messages.
/// @param numbers  elements of a message
Sent of_stages(double messages, double numbers, const dist::Layout& layout,
               const MachineSpeeds& speeds);

/// Traffic of tokens to their experts and back, and of their gradients. In each exchange a row goes
/// to (e − 1)·(1 − (1 − 1/e)^k) other ranks; the busiest rank has rank_load times as many rows.
/// @param rows  elements of a micro-batch's rows;  @param k  active experts
Sent of_tokens(double exchanges, double rows, double k, const dist::Layout& layout,
               const MachineSpeeds& speeds);

/// Messages that all ranks exchange in a step in any layout: each rank's record to all others, the
/// norm of their gradients, rank 0's order along a tree, and barriers.
/// @param record  bytes of a rank's record with its reserve
/// @param norms   f64 numbers that a rank sends for the norm; 0: no rank needs another's numbers
/// @param barriers  messages that a rank sends in barriers
Sent of_records(double record, double norms, double barriers, const dist::Layout& layout,
                const MachineSpeeds& speeds);

}  // namespace penstock::rank_traffic
