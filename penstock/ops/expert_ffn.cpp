// The grouped expert feed-forward: implementations, gradient, dispatcher registration.
// expert_check.cpp has its checks.
#include "penstock/ops/expert_ffn.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "penstock/ops/expert_check.h"
#include "penstock/ops/expert_cost.h"
#include "penstock/ops/implementation.h"
#include "penstock/ops/machine/precision.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/product_tap.h"
#include "penstock/ops/second_derivative.h"

namespace penstock::ops {

Activation parse_activation(const std::string& name) {
  if (name == "swiglu") return Activation::swiglu;
  if (name == "relu") return Activation::relu;
  fail("activation '", name, "' is unknown; use swiglu or relu");
}

namespace {

using at::Tensor;
using OptionalTensor = c10::optional<Tensor>;
using Signature = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                         const Tensor&, const Tensor&, const Tensor&, const OptionalTensor&,
                         const OptionalTensor&, c10::string_view, bool, double, std::int64_t,
                         const OptionalTensor&);

const Implementations<ExpertOutput(const ExpertProblem&, bool)>& forward_list() {
  static const Implementations<ExpertOutput(const ExpertProblem&, bool)> list(
      "expert_ffn",
      {{"bf16", bf16::declines_expert_ffn, bf16::expert_ffn},
       {"rows", cpu::declines_expert_rows, cpu::expert_rows},
       {"xsmm", xsmm::declines_expert_ffn, xsmm::expert_ffn},
       {"reference", nullptr, reference::expert_ffn}},
      expert_cost);
  return list;
}

using Backward = ExpertGradient(const Tensor&, const ExpertProblem&, const Tensor&);

const Implementations<Backward>& backward_list() {
  static const Implementations<Backward> list(
      "expert_ffn.backward",
      {{"bf16", bf16::declines_expert_ffn_backward, bf16::expert_ffn_backward},
       {"xsmm", xsmm::declines_expert_ffn_backward, xsmm::expert_ffn_backward},
       {"reference", nullptr, reference::expert_ffn_backward}},
      expert_backward_cost);
  return list;
}

Tensor value(const OptionalTensor& tensor) { return tensor ? *tensor : Tensor(); }

ExpertProblem checked(const Tensor& hidden, const Tensor& weight, const Tensor& token,
                      const Tensor& offsets, const Tensor& by_token, const Tensor& token_offsets,
                      const Tensor& w_in, const Tensor& w_out, const OptionalTensor& b_in,
                      const OptionalTensor& b_out, c10::string_view activation, double dropout,
                      std::int64_t dropout_seed, const OptionalTensor& dropout_keys) {
  ExpertProblem problem{hidden,
                        weight,
                        token,
                        offsets,
                        by_token,
                        token_offsets,
                        w_in,
                        w_out,
                        value(b_in),
                        value(b_out),
                        parse_activation(std::string(activation.data(), activation.size())),
                        dropout,
                        dropout_seed,
                        value(dropout_keys)};
  check_expert_problem(problem);
  problem.hidden = product_operand(hidden);  // rounded once, for both passes
  return problem;
}

ExpertOutput run_forward(const ExpertProblem& problem, bool keep) {
  show_products(problem);
  return forward_list().run(problem, keep);
}

Tensor forward_kernel(const Tensor& hidden, const Tensor& weight, const Tensor& token,
                      const Tensor& offsets, const Tensor& by_token, const Tensor& token_offsets,
                      const Tensor& w_in, const Tensor& w_out, const OptionalTensor& b_in,
                      const OptionalTensor& b_out, c10::string_view activation, bool,
                      double dropout, std::int64_t dropout_seed,
                      const OptionalTensor& dropout_keys) {
  return run_forward(checked(hidden, weight, token, offsets, by_token, token_offsets, w_in, w_out,
                             b_in, b_out, activation, dropout, dropout_seed, dropout_keys),
                     false)
      .output;
}

class ExpertFunction : public torch::autograd::Function<ExpertFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& hidden,
                        const Tensor& weight, const Tensor& token, const Tensor& offsets,
                        const Tensor& by_token, const Tensor& token_offsets, const Tensor& w_in,
                        const Tensor& w_out, const OptionalTensor& b_in,
                        const OptionalTensor& b_out, const std::string& activation, bool recompute,
                        double dropout, std::int64_t dropout_seed,
                        const OptionalTensor& dropout_keys) {
    const at::AutoDispatchBelowADInplaceOrView below;
    ExpertProblem problem =
        checked(hidden, weight, token, offsets, by_token, token_offsets, w_in, w_out, b_in, b_out,
                activation, dropout, dropout_seed, dropout_keys);
    problem.gradient = true;
    const ExpertOutput result = run_forward(problem, !recompute);
    context->saved_data["activation"] = activation;
    context->saved_data["dropout"] = dropout;
    context->saved_data["dropout_seed"] = dropout_seed;
    context->save_for_backward({problem.hidden, weight, token, offsets, by_token, token_offsets,
                                w_in, w_out, value(b_in), value(b_out), result.kept,
                                value(dropout_keys)});
    return result.output;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const ExpertProblem problem{saved[0],
                                saved[1],
                                saved[2],
                                saved[3],
                                saved[4],
                                saved[5],
                                saved[6],
                                saved[7],
                                saved[8],
                                saved[9],
                                parse_activation(context->saved_data["activation"].toStringRef()),
                                context->saved_data["dropout"].toDouble(),
                                context->saved_data["dropout_seed"].toInt(),
                                saved[11]};
    const ExpertGradient gradient = backward_list().run(grads[0], problem, saved[10]);
    const Tensor none;
    return {gradient.hidden, gradient.weight, none, none, none, none, gradient.w_in, gradient.w_out,
            gradient.b_in,   gradient.b_out,  none, none, none, none, none};
  }
};

Tensor autograd_kernel(const Tensor& hidden, const Tensor& weight, const Tensor& token,
                       const Tensor& offsets, const Tensor& by_token, const Tensor& token_offsets,
                       const Tensor& w_in, const Tensor& w_out, const OptionalTensor& b_in,
                       const OptionalTensor& b_out, c10::string_view activation, bool recompute,
                       double dropout, std::int64_t dropout_seed,
                       const OptionalTensor& dropout_keys) {
  if (needs_gradient(hidden, weight, w_in, w_out, value(b_in), value(b_out)))
    return recorded<ExpertFunction>("expert_ffn", hidden, weight, token, offsets, by_token,
                                    token_offsets, w_in, w_out, b_in, b_out,
                                    std::string(activation.data(), activation.size()), recompute,
                                    dropout, dropout_seed, dropout_keys);
  const at::AutoDispatchBelowADInplaceOrView below;
  return forward_kernel(hidden, weight, token, offsets, by_token, token_offsets, w_in, w_out, b_in,
                        b_out, activation, recompute, dropout, dropout_seed, dropout_keys);
}

}  // namespace

Tensor expert_ffn(const Tensor& hidden, const Tensor& weight, const Tensor& token,
                  const Tensor& offsets, const Tensor& by_token, const Tensor& token_offsets,
                  const Tensor& w_in, const Tensor& w_out, const ExpertOptions& options) {
  static const auto handle = dispatcher_handle<Signature>("expert_ffn");
  return handle.call(hidden, weight, token, offsets, by_token, token_offsets, w_in, w_out,
                     to_dispatcher(options.b_in), to_dispatcher(options.b_out),
                     options.activation == Activation::relu ? "relu" : "swiglu", options.recompute,
                     options.dropout, options.dropout_seed, to_dispatcher(options.dropout_keys));
}

}  // namespace penstock::ops

TORCH_LIBRARY_IMPL(penstock, CPU, m) { m.impl("expert_ffn", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, CUDA, m) { m.impl("expert_ffn", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, Autograd, m) { m.impl("expert_ffn", penstock::ops::autograd_kernel); }
