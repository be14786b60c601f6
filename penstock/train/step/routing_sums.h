// A step's routing statistics, summed over the layers' passes of all parts.
#pragma once

#include "penstock/routers/step_statistics.h"
#include "penstock/train/step/part_record.h"
#include "penstock/train/step/step_report.h"

namespace penstock {

class RoutingSums {
 public:
  /// @param weight  of the part that the layer's pass belongs to, in means by layer
  void add(const RoutingRecord& layer, double weight);
  /// Assignments of all layers and passes; of merging layers one per token.
  double assignments() const { return assignments_; }
  /// Puts the means into the step's report.  @param weights  of all passes together
  void finish(double weights, StepReport& out);

 private:
  StepReport report_;
  StepCounts counts_;
  double assignments_ = 0, tokens_ = 0;  // tokens: of all layers and passes
};

}  // namespace penstock
