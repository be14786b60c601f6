// The speeds of the machines that an estimate of a step's time assumes. Nothing is measured here.
#pragma once

namespace penstock {

/// Speeds of one process. All processes are alike.
struct MachineSpeeds {
  double flops = 1e11;         ///< useful FLOP/s of one process while it computes
  double bandwidth = 1.25e9;   ///< bytes/s that one process sends to another machine
  double latency = 5e-5;       ///< seconds of a message
  int node_ranks = 1;          ///< processes of one machine; their ranks are consecutive
  bool shared_memory = false;  ///< processes of one machine hold one copy of divided weights
  double node_bandwidth = 0;   ///< bytes/s to a process on the same machine; 0: bandwidth
  /// bytes/s of memory that one process reads and writes; 0: memory traffic is not counted
  double memory_bandwidth = 0;
  /// seconds of a computing core for each byte sent and received; 0: the exchange has its own cores
  double exchange_cost = 0;
  /// expert rows of the busiest rank / mean over all ranks; at least 1
  double rank_load = 1;
};

}  // namespace penstock
