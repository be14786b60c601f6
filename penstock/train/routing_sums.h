// A step's routing statistics, summed over what the routing tap sees.
#pragma once

#include <map>
#include <string>

#include "penstock/routers/routing.h"
#include "penstock/routers/step_statistics.h"
#include "penstock/train/step_report.h"

namespace penstock {

class RoutingSums {
 public:
  /// @param weight  of the part that the layer's pass belongs to, in means by layer
  void add(std::int64_t layer, const RoutingResult& result, double weight);
  /// Assignments of all layers and passes; of merging layers one per token.
  double assignments() const { return assignments_; }
  /// Puts the means into the step's report.  @param weights  of all passes together
  void finish(double weights, StepReport& out);

 private:
  /// Adds weight · value, in f64 on the value's device: it is read when the step ends.
  using Sums = std::map<std::string, at::Tensor>;
  static void add_to(Sums& sums, const std::string& name, const at::Tensor& value, double weight);
  static void read(const Sums& sums, double weights, std::map<std::string, double>& out);

  StepReport report_;
  Sums losses_, statistics_;
  StepCounts counts_;
  double assignments_ = 0, tokens_ = 0;  // tokens: of all layers and passes
};

}  // namespace penstock
