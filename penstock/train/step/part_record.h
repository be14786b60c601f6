// The results of a step's parts as plain numbers. Ranks exchange these records, and each rank makes
// the same report of them, in the order of the parts. One process makes the same report too.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "penstock/dist/group.h"
#include "penstock/routers/routing.h"
#include "penstock/train/step/step_report.h"

namespace penstock {

/// The routing of one pass through a layer.
struct RoutingRecord {
  std::int64_t layer = 0, tokens = 0, experts = 0;
  bool merges = false;
  std::vector<std::int64_t> expert_tokens;  ///< [E], empty if the plan merges
  /// assignments of Plan::idle: computed, but not counted as an expert's tokens
  std::int64_t idle_assignments = 0;
  std::vector<double> lowest_taken;  ///< [E], Plan::lowest_taken; empty if it has none
  double sparsity = 0;
  std::map<std::string, double> losses, statistics;
};

/// The same during the pass: scores, losses and statistics are still on the model's device.
struct RoutingPass {
  RoutingRecord record;
  std::map<std::string, at::Tensor> losses, statistics;  ///< scalars without gradient
  at::Tensor lowest_taken;                               ///< [E] or undefined
};

RoutingPass routing_pass(std::int64_t layer, const RoutingResult& result);
/// Reads the numbers from the device into the record.
RoutingRecord read(RoutingPass pass);

/// A part's contribution to the report, and its passes through layers. If several ranks hold the
/// layers, each rank has a record of the part.
struct PartRecord {
  std::size_t part = 0;
  double weight = 1;
  StepReport seen;
  std::vector<RoutingRecord> routing;
};

/// A part whose objective was not finite.
struct NotFinite {
  std::size_t part = 0;
  std::string value;    ///< the objective in words, on the rank that computes it
  std::string culprit;  ///< the first layer of this rank whose output was not finite; "": none
};

/// A rank's result: its parts up to the first that was not finite, or why the rank gave up.
struct RankRecord {
  std::vector<PartRecord> parts;
  double seconds = 0;  ///< time that the rank computed
  std::optional<NotFinite> not_finite;
  int signal = 0;       ///< the signal that stopped the rank; 0: none
  std::string failure;  ///< message of any other exception; "": none
};

/// The bytes in which ranks exchange a record.
std::string to_bytes(const RankRecord& record);

/// About the number of these bytes: 40 + parts · (180 + layers · (150 + 3 · experts)).
/// @param layers  passes of a part through layers with experts
double typical_record_bytes(double parts, double layers, double experts);

/// The record of a rank that an exception ended in the middle of a step.
RankRecord record_of_failure(const std::exception_ptr& thrown);

/// Every rank's record, in rank order. If a rank failed, all throw (throw_first_failure()). If a
/// signal stopped a rank, all throw StepStopped.
std::vector<RankRecord> exchange_records(const dist::ProcessGroup& group, const RankRecord& mine,
                                         const std::exception_ptr& thrown);

}  // namespace penstock
