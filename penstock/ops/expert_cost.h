// The least FLOPs and bytes of a pass through the experts, for profiles.
#pragma once

#include "penstock/ops/expert_problem.h"
#include "penstock/ops/profile/profile.h"

namespace penstock::ops {

/// 2·3df FLOPs an assignment. Memory: rows in and out, the plan, the weights of experts with
/// tokens, and kept projections.
Cost expert_cost(const ExpertProblem& problem, bool keep);
/// Twice the FLOPs: a product for the rows and one for the weights. Memory: the forward's operands,
/// the row gradients, and the weight gradients of all experts, which are written even if they are
/// zero.
Cost expert_backward_cost(const at::Tensor& d_output, const ExpertProblem& problem,
                          const at::Tensor& kept);

}  // namespace penstock::ops
