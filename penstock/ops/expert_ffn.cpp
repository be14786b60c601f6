// The grouped expert feed-forward: implementations, gradient, dispatcher registration. Its checks
// are in expert_check.cpp.
#include "penstock/ops/expert_ffn.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "penstock/ops/expert_check.h"
#include "penstock/ops/implementation.h"
#include "penstock/ops/ops.h"

namespace penstock::ops {

std::string describe(const ExpertProblem& problem) {
  return concat(describe(problem.hidden), ", A ", problem.assignments(), ", E ", problem.experts(),
                ", f ", problem.inner());
}

namespace {

using at::Tensor;
using Signature = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                         const Tensor&, const Tensor&, const Tensor&);

const Implementations<ExpertOutput(const ExpertProblem&, bool)>& forward_list() {
  static const Implementations<ExpertOutput(const ExpertProblem&, bool)> list(
      "expert_ffn", {
#ifdef PENSTOCK_HAVE_XSMM
                        {"xsmm", xsmm::declines_expert_ffn, xsmm::expert_ffn},
#endif
                        {"reference", nullptr, reference::expert_ffn}});
  return list;
}

using Backward = ExpertGradient(const Tensor&, const ExpertProblem&, const Tensor&);

const Implementations<Backward>& backward_list() {
  static const Implementations<Backward> list(
      "expert_ffn.backward",
      {
#ifdef PENSTOCK_HAVE_XSMM
          {"xsmm", xsmm::declines_expert_ffn_backward, xsmm::expert_ffn_backward},
#endif
          {"reference", nullptr, reference::expert_ffn_backward}});
  return list;
}

Tensor forward_kernel(const Tensor& hidden, const Tensor& weight, const Tensor& token,
                      const Tensor& offsets, const Tensor& by_token, const Tensor& token_offsets,
                      const Tensor& w_gate_up, const Tensor& w_down) {
  const ExpertProblem problem{hidden,   weight,        token,     offsets,
                              by_token, token_offsets, w_gate_up, w_down};
  check_expert_problem(problem);
  return forward_list().run(problem, false).output;
}

class ExpertFunction : public torch::autograd::Function<ExpertFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& hidden,
                        const Tensor& weight, const Tensor& token, const Tensor& offsets,
                        const Tensor& by_token, const Tensor& token_offsets,
                        const Tensor& w_gate_up, const Tensor& w_down) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const ExpertProblem problem{hidden,   weight,        token,     offsets,
                                by_token, token_offsets, w_gate_up, w_down};
    check_expert_problem(problem);
    const ExpertOutput result = forward_list().run(problem, true);
    context->save_for_backward({hidden, weight, token, offsets, by_token, token_offsets, w_gate_up,
                                w_down, result.gate_up});
    return result.output;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const ExpertProblem problem{saved[0], saved[1], saved[2], saved[3],
                                saved[4], saved[5], saved[6], saved[7]};
    const ExpertGradient gradient = backward_list().run(grads[0], problem, saved[8]);
    return {gradient.hidden, gradient.weight, Tensor(),           Tensor(),
            Tensor(),        Tensor(),        gradient.w_gate_up, gradient.w_down};
  }
};

Tensor autograd_kernel(const Tensor& hidden, const Tensor& weight, const Tensor& token,
                       const Tensor& offsets, const Tensor& by_token, const Tensor& token_offsets,
                       const Tensor& w_gate_up, const Tensor& w_down) {
  if (needs_gradient(hidden, weight, w_gate_up, w_down))
    return ExpertFunction::apply(hidden, weight, token, offsets, by_token, token_offsets, w_gate_up,
                                 w_down);
  const at::AutoDispatchBelowADInplaceOrView below;
  return forward_kernel(hidden, weight, token, offsets, by_token, token_offsets, w_gate_up, w_down);
}

}  // namespace

Tensor expert_ffn(const Tensor& hidden, const Tensor& weight, const Tensor& token,
                  const Tensor& offsets, const Tensor& by_token, const Tensor& token_offsets,
                  const Tensor& w_gate_up, const Tensor& w_down) {
  static const auto handle = dispatcher_handle<Signature>("expert_ffn");
  return handle.call(hidden, weight, token, offsets, by_token, token_offsets, w_gate_up, w_down);
}

}  // namespace penstock::ops

TORCH_LIBRARY_IMPL(penstock, CPU, m) { m.impl("expert_ffn", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, CUDA, m) { m.impl("expert_ffn", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, Autograd, m) { m.impl("expert_ffn", penstock::ops::autograd_kernel); }
