// Bytes that one rank of a layout sends in a step, by what they are, and the seconds that they
// take. Estimates alone: nothing is sent or measured here. rank_estimate.h adds them up.
#pragma once

#include "penstock/dist/mesh.h"
#include "penstock/train/layouts/machine_speeds.h"

namespace penstock::rank_traffic {

inline constexpr double kBytes = 4;  ///< of a number

// Bytes of memory for a byte sent. What arrives is as much.
inline constexpr double kPacked = 2;      ///< read and written
inline constexpr double kAddedUp = 3;     ///< two read, one written
inline constexpr double kPutInPlace = 2;  ///< read and written

/// Of the other ranks of a group, whose neighbours lie `stride` ranks apart, the share that is on
/// other machines.
double share_elsewhere(int ranks, int stride, const MachineSpeeds& speeds);

double seconds_of_memory(double bytes, const MachineSpeeds& speeds);

/// A kind of traffic of one rank: what it sends, how much of that to other machines, and what of
/// its own memory it reads and writes for that.
struct Sent {
  const char* kind;
  double bytes = 0, elsewhere = 0, messages = 0, memory = 0;

  /// @param touched  bytes of memory for a byte sent
  void add(double more, double share, double more_messages, double touched = 0);

  /// bytes here / node_bandwidth + bytes elsewhere / bandwidth + messages · latency
  ///   + memory / memory_bandwidth
  double seconds(const MachineSpeeds& speeds) const;

  /// Of these, a core's that would compute.
  double processor_seconds(const MachineSpeeds& speeds) const;
};

/// Between ranks that divide heads and neurons. A sum over ranks is as much as the sums of divided
/// rows to who holds them and these to all.
/// @param numbers  of all sums together
Sent of_tensor(double sums, double numbers, const dist::Layout& layout,
               const MachineSpeeds& speeds);

/// Between stages. Where any two neighbours are on two machines, their messages set the pace of
/// all.
/// @param numbers  of a message
Sent of_stages(double messages, double numbers, const dist::Layout& layout,
               const MachineSpeeds& speeds);

/// Of tokens to their experts and back, and of their gradients: (e − 1)·(1 − (1 − 1/e)^k) rows of
/// each exchange go to other ranks, for the busiest rank rank_load times as many.
/// @param rows  numbers of a micro-batch's rows;  @param k  active experts
Sent of_tokens(double exchanges, double rows, double k, const dist::Layout& layout,
               const MachineSpeeds& speeds);

}  // namespace penstock::rank_traffic
