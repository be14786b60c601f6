#include "penstock/ops/expert_problem.h"

#include <ATen/ATen.h>

#include "penstock/base/error.h"
#include "penstock/ops/implementation.h"

namespace penstock::ops {

std::string describe(const ExpertProblem& problem) {
  return concat(describe(problem.hidden), ", A ", problem.assignments(), ", E ", problem.experts(),
                ", f ", problem.inner());
}

}  // namespace penstock::ops
