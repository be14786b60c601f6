// Checks of the expert feed-forward's arguments.
#pragma once

#include "penstock/ops/expert_problem.h"

namespace penstock::ops {

/// Throws Error unless shapes, types, devices and indices fit: offsets ascend from 0 to A, token
/// and by_token are in range, and by_token lists each token's own assignments.
/// Cost: O(A + T + E). Index values on a device other than the CPU are not read, because reading
/// waits for the device.
void check_expert_problem(const ExpertProblem& problem);

}  // namespace penstock::ops
