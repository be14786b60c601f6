// What an estimate of a step's time takes for given of the machines. Nothing is measured here.
#pragma once

namespace penstock {

/// Of one process, all alike.
struct MachineSpeeds {
  double flops = 1e11;        ///< useful FLOP/s of one process while it computes
  double bandwidth = 1.25e9;  ///< bytes/s that one process sends to another machine
  double latency = 5e-5;      ///< seconds of a message
  int node_ranks = 1;         ///< processes of one machine, which are neighbours
  double node_bandwidth = 0;  ///< bytes/s that one sends to another of its machine; 0: bandwidth
  /// bytes/s of its memory that one process reads and writes; 0: work on memory is not counted
  double memory_bandwidth = 0;
  /// seconds that a byte sent, and one received, take of a core that would compute; 0: the exchange
  /// has cores of its own
  double exchange_cost = 0;
  /// rows that the experts of the busiest rank compute, over the mean of all ranks; at least 1
  double rank_load = 1;
};

}  // namespace penstock
