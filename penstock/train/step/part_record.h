// What the parts of a step saw, as plain numbers, so that ranks can exchange it and each puts the
// same report together: in the order of the parts, as one process would.
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

/// A layer's pass.
struct RoutingRecord {
  std::int64_t layer = 0, tokens = 0, experts = 0;
  bool merges = false;
  std::vector<std::int64_t> expert_tokens;  ///< [E], empty where the plan merges
  std::vector<double> lowest_taken;         ///< [E], Plan::lowest_taken; empty where it has none
  double sparsity = 0;
  std::map<std::string, double> losses, statistics;
};

/// A layer's pass as it is seen, its scores, losses and statistics still on the model's device.
struct RoutingPass {
  RoutingRecord record;
  std::map<std::string, at::Tensor> losses, statistics;  ///< scalars without gradient
  at::Tensor lowest_taken;                               ///< [E] or undefined
};

RoutingPass routing_pass(std::int64_t layer, const RoutingResult& result);
/// The record with its numbers read.
RoutingRecord read(RoutingPass pass);

/// A part: what its work added to the report, and its layers' passes. Of a part whose layers
/// several ranks hold, each has a record.
struct PartRecord {
  std::size_t part = 0;
  double weight = 1;
  StepReport seen;
  std::vector<RoutingRecord> routing;
};

/// A part whose objective was not finite.
struct NotFinite {
  std::size_t part = 0;
  std::string value;    ///< in words, where this rank has the objective
  std::string culprit;  ///< the first layer of this rank whose output was not finite; "": none
};

/// A rank's result: its parts up to the first that was not finite, or the reason it gave up.
struct RankRecord {
  std::vector<PartRecord> parts;
  double seconds = 0;  ///< that it computed
  std::optional<NotFinite> not_finite;
  int signal = 0;       ///< that stopped it
  std::string failure;  ///< another exception's message
};

/// What an exception in the middle of a step says of its rank.
RankRecord record_of_failure(const std::exception_ptr& thrown);

/// Every rank's record, in rank order. If one failed, all throw (throw_first_failure()); if one was
/// stopped, all throw StepStopped.
std::vector<RankRecord> exchange_records(const dist::ProcessGroup& group, const RankRecord& mine,
                                         const std::exception_ptr& thrown);

}  // namespace penstock
