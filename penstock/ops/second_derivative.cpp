#include "penstock/ops/second_derivative.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>

#include "penstock/base/error.h"

namespace penstock::ops {
namespace {

using torch::autograd::variable_list;

/// Runs after each backward pass of the node that it belongs to.
class RefuseSecondDerivative : public torch::autograd::FunctionPostHook {
 public:
  RefuseSecondDerivative(const torch::autograd::Node& node, const char* op)
      : node_(node), op_(op) {}

  /// @param outputs  the gradients that the node gives
  /// @param inputs  the gradients that it was given
  variable_list operator()(const variable_list& outputs, const variable_list& inputs) override {
    if (!at::GradMode::is_enabled()) return outputs;
    // Autograd passes through a node only if its edges lead to what is asked for.
    torch::autograd::edge_list edges = torch::autograd::collect_next_edges(inputs);
    edges.insert(edges.end(), node_.next_edges().begin(), node_.next_edges().end());
    const std::shared_ptr<torch::autograd::Node> refusal(
        new torch::autograd::Error(
            concat(
                "[", op_,
                "] has no second derivative, and its gradient is differentiated; compute this "
                "part by torch's own operators, or leave it out of what is differentiated twice"),
            std::move(edges)),
        torch::autograd::deleteNode);
    variable_list out;
    for (const at::Tensor& gradient : outputs) {
      out.push_back(gradient.defined() ? gradient.detach() : gradient);
      if (gradient.defined()) torch::autograd::set_history(out.back(), refusal);
    }
    return out;
  }

 private:
  const torch::autograd::Node& node_;  // owns this object
  const char* op_;
};

}  // namespace

void refuse_second_derivatives(torch::autograd::Node& node, const char* op) {
  node.add_post_hook(std::make_unique<RefuseSecondDerivative>(node, op));
}

}  // namespace penstock::ops
