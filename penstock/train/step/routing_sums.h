// A step's routing statistics, summed over the layers' passes of all parts.
#pragma once

#include "penstock/routers/step_statistics.h"
#include "penstock/train/step/part_record.h"
#include "penstock/train/step/step_report.h"

namespace penstock {

class RoutingSums {
 public:
  /// @param weight  weight of the part of this pass, in means by layer
  void add(const RoutingRecord& layer, double weight);
  /// Assignments of all layers and passes, with those of idle experts, which are computed too.
  /// Layers that merge experts count one per token.
  double computed_assignments() const { return assignments_ + idle_; }
  /// Puts the means into the step's report.  @param weights  sum of the weights of all passes
  void finish(double weights, StepReport& out);

 private:
  StepReport report_;
  StepCounts counts_;
  double assignments_ = 0, idle_ = 0, tokens_ = 0;  // of all layers and passes
};

}  // namespace penstock
