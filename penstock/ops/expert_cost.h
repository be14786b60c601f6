// What a pass through the experts needs at the least, for profiles.
#pragma once

#include "penstock/ops/expert_problem.h"
#include "penstock/ops/profile/profile.h"

namespace penstock::ops {

/// 2·3df FLOPs an assignment. Memory: rows in and out, the plan, the weights of experts that have
/// tokens, and the projections where they are kept.
Cost expert_cost(const ExpertProblem& problem, bool keep);
/// Twice the FLOPs: a product for the rows and one for the weights. Memory: the forward's operands,
/// the row gradients, and the weight gradients of all experts, which are written even where zero.
Cost expert_backward_cost(const at::Tensor& d_output, const ExpertProblem& problem,
                          const at::Tensor& kept);

}  // namespace penstock::ops
