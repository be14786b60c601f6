// The least FLOPs and bytes of a pass through the experts, for profiles.
#pragma once

#include "penstock/ops/expert_problem.h"
#include "penstock/ops/profile/profile.h"

namespace penstock::ops {

/// The forward pass: 2·3df FLOPs an assignment (2·2df with relu). Bytes: rows in and out, the plan,
/// the weights of experts with tokens, and the inputs of the activation if they are kept.
Cost expert_cost(const ExpertProblem& problem, bool keep);
/// The backward pass: twice the forward pass's FLOPs, because each product has one product for the
/// gradient of the rows and one for the gradient of the weights. Bytes: the forward's operands, the
/// row gradients, and the weight gradients of all experts, which are written even if they are zero.
Cost expert_backward_cost(const at::Tensor& d_output, const ExpertProblem& problem,
                          const at::Tensor& kept);

}  // namespace penstock::ops
