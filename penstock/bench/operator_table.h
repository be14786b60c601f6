// The table of a profiled step: the time of each operator, and its time on an ideal machine.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "penstock/ops/profile/profile.h"

namespace penstock::bench {

/// The limits of a machine in a roofline.
struct MachineLimits {
  int threads = 1;
  double peak_flops = 0;        ///< fused multiply-adds per second times 2, all threads
  double memory_bandwidth = 0;  ///< bytes per second, all threads
  double peak_flops_bf16 = 0;   ///< of products in bf16; 0: peak_flops holds for all products
};

/// The profile of one step or pass.
struct ProfiledStep {
  double seconds = 0;
  ops::ProfileEntries operators, scopes;
};

/// An operator's implementation, or a scope outside the operators; means per step.
struct OperatorRow {
  std::string name;
  double calls = 0, seconds = 0, flops = 0, bytes = 0;
  double bf16_flops = 0;  ///< those of `flops` that are of products in bf16

  /// flops / peak, with bf16_flops at the peak of bf16.
  double peak_seconds(const MachineLimits& machine) const;
  /// max(peak_seconds, bytes / bandwidth): the least time with these limits for operands in memory.
  double ideal_seconds(const MachineLimits& machine) const;
  /// seconds − ideal_seconds; negative if operands came from a cache.
  double lost_seconds(const MachineLimits& machine) const;
};

struct OperatorTable {
  double seconds = 0;                  ///< of a step
  std::vector<OperatorRow> operators;  ///< longest time first
  std::vector<OperatorRow> scopes;     ///< named pieces of the time outside the operators

  /// Seconds of a step that the operators took together.
  double operator_seconds() const;
  /// The time outside the operators: gradients' bookkeeping, stock tensor operations, data.
  double outside_seconds() const { return seconds - operator_seconds(); }
  /// The same as a share of the step; 0 for a step without time.
  double outside_share() const { return seconds > 0 ? outside_seconds() / seconds : 0; }
  /// FLOPs of a step, by the operators' own count.
  double flops() const;
  /// The operators' peak_seconds together.
  double peak_seconds(const MachineLimits& machine) const;
};

/// Means over the middle half of the steps by time, so that a disturbed step does not count.
OperatorTable make_table(std::vector<ProfiledStep> steps);

/// The operators' rows: name, calls, seconds, share, flops, bytes, flops_per_second, share_of_peak,
/// ideal_seconds, lost_seconds; the most lost time first.
nlohmann::ordered_json operators_json(const OperatorTable& table, const MachineLimits& machine);
/// The scopes outside the operators: name, calls, seconds, share; "rest" last.
nlohmann::ordered_json outside_json(const OperatorTable& table);
/// Both tables as text.
std::string table_text(const OperatorTable& table, const MachineLimits& machine);

}  // namespace penstock::bench
