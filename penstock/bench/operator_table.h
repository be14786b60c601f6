// The table of a profiled step: what each operator took, and what an ideal machine would need.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "penstock/ops/profile/profile.h"

namespace penstock::bench {

/// What a roofline needs to know of a machine.
struct MachineLimits {
  int threads = 1;
  double peak_flops = 0;        ///< fused multiply-adds per second times 2, all threads
  double memory_bandwidth = 0;  ///< bytes per second, all threads
};

/// One step (or pass) as it was profiled.
struct ProfiledStep {
  double seconds = 0;
  ops::ProfileEntries operators, scopes;
};

/// An operator's implementation, or a scope outside the operators; means per step.
struct OperatorRow {
  std::string name;
  double calls = 0, seconds = 0, flops = 0, bytes = 0;

  /// max(flops / peak, bytes / bandwidth): no machine of these limits takes less from memory.
  double ideal_seconds(const MachineLimits& machine) const;
  /// seconds − ideal_seconds; negative where operands came from a cache.
  double lost_seconds(const MachineLimits& machine) const;
};

struct OperatorTable {
  double seconds = 0;                  ///< of a step
  std::vector<OperatorRow> operators;  ///< most time first
  std::vector<OperatorRow> scopes;     ///< named pieces of the time outside the operators

  /// Seconds of a step that the operators took together.
  double operator_seconds() const;
  /// What no operator accounts for: gradients' bookkeeping, stock tensor operations, data.
  double outside_seconds() const { return seconds - operator_seconds(); }
  /// The same as a share of the step; 0 for a step without time.
  double outside_share() const { return seconds > 0 ? outside_seconds() / seconds : 0; }
  /// FLOPs of a step, by the operators' own count.
  double flops() const;
};

/// Means over the middle half of the steps by time, so that a disturbed step does not count.
OperatorTable make_table(std::vector<ProfiledStep> steps);

/// The operators' rows: name, calls, seconds, share, flops, bytes, flops_per_second, share_of_peak,
/// ideal_seconds, lost_seconds; the most lost time first.
nlohmann::ordered_json operators_json(const OperatorTable& table, const MachineLimits& machine);
/// The pieces of the time outside: name, calls, seconds, share; "rest" last.
nlohmann::ordered_json outside_json(const OperatorTable& table);
/// Both for people.
std::string table_text(const OperatorTable& table, const MachineLimits& machine);

}  // namespace penstock::bench
