#include "penstock/ops/expert_cost.h"

#include <ATen/ATen.h>

#include "penstock/ops/implementation.h"

namespace penstock::ops {
namespace {

double product_flops(const ExpertProblem& problem) {
  const double matrices = static_cast<double>(problem.inputs()) + 1;
  return 2.0 * matrices * static_cast<double>(problem.assignments()) *
         static_cast<double>(problem.width()) * static_cast<double>(problem.inner());
}

/// The bytes of hidden rows, the plan, and the weights of experts with at least one token.
double operand_bytes(const ExpertProblem& p) {
  const auto* offsets = p.offsets.data_ptr<std::int64_t>();
  std::int64_t used = 0;
  for (std::int64_t e = 0; e < p.experts(); ++e) used += offsets[e + 1] > offsets[e];
  const double weights = (bytes_of(p.w_in) + bytes_of(p.w_out)) * static_cast<double>(used) /
                         static_cast<double>(p.experts());
  return weights + bytes_of(p.hidden) + bytes_of(p.weight) + bytes_of(p.token) +
         bytes_of(p.by_token) + bytes_of(p.token_offsets);
}

/// The bytes of one row of d per token in the weights' type, f32 or f64; hidden itself may be bf16.
double row_bytes(const ExpertProblem& p) {
  return static_cast<double>(p.hidden.numel() * p.w_out.element_size());
}

double kept_bytes(const ExpertProblem& p) {
  return static_cast<double>(p.inputs() * p.assignments() * p.inner() * p.w_out.element_size());
}

}  // namespace

Cost expert_cost(const ExpertProblem& problem, bool keep) {
  return {.flops = product_flops(problem),
          .bytes = operand_bytes(problem) + row_bytes(problem) + (keep ? kept_bytes(problem) : 0)};
}

Cost expert_backward_cost(const at::Tensor& d_output, const ExpertProblem& problem,
                          const at::Tensor& kept) {
  return {.flops = 2 * product_flops(problem),
          .bytes = operand_bytes(problem) + bytes_of(d_output) +
                   (kept.defined() ? kept_bytes(problem) : 0) + row_bytes(problem) +
                   bytes_of(problem.weight) + bytes_of(problem.w_in) + bytes_of(problem.w_out)};
}

}  // namespace penstock::ops
