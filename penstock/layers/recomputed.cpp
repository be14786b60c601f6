#include "penstock/layers/recomputed.h"

#include <torch/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/types.h>

#include <memory>
#include <utility>

#include "penstock/ops/machine/precision.h"
#include "penstock/ops/second_derivative.h"

namespace penstock {
namespace {

using torch::autograd::variable_list;

/// The inputs' values as leaves of a new graph.
variable_list leaves_of(const variable_list& inputs) {
  variable_list out;
  for (const at::Tensor& input : inputs)
    out.push_back(input.detach().requires_grad_(input.requires_grad()));
  return out;
}

/// The backward pass of a piece. It is a Node because torch::autograd::Function takes no lists of
/// tensors.
class RecomputedNode : public torch::autograd::Node {
 public:
  RecomputedNode(Piece piece, const variable_list& inputs, variable_list parameters)
      : piece_(std::move(piece)),
        parameters_(std::move(parameters)),
        precision_(ops::product_precision()) {
    for (const at::Tensor& input : inputs) inputs_.emplace_back(input, /*is_output=*/false);
    variable_list all = inputs;
    all.insert(all.end(), parameters_.begin(), parameters_.end());
    set_next_edges(torch::autograd::collect_next_edges(all));
  }

  variable_list apply(variable_list&& gradients) override {
    variable_list kept;
    for (const auto& input : inputs_) kept.push_back(input.unpack());
    const variable_list inputs = leaves_of(kept);
    const at::AutoGradMode with_gradients(true);
    const ops::PrecisionScope precision(precision_);
    variable_list roots, of_roots, all = inputs, wanted;
    {
      const variable_list outputs = piece_(inputs);
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (!gradients[i].defined() || !outputs[i].requires_grad()) continue;
        roots.push_back(outputs[i]);
        of_roots.push_back(gradients[i]);
      }
    }
    all.insert(all.end(), parameters_.begin(), parameters_.end());
    for (const at::Tensor& tensor : all)
      if (tensor.requires_grad()) wanted.push_back(tensor);
    variable_list out(all.size());
    if (roots.empty()) return out;
    variable_list found = torch::autograd::grad(roots, wanted, of_roots, /*retain_graph=*/false,
                                                /*create_graph=*/false, /*allow_unused=*/true);
    auto next = found.begin();
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].requires_grad()) out[i] = std::move(*next++);
    return out;
  }

  void release_variables() override {
    for (auto& input : inputs_) input.reset_data();
  }

 private:
  Piece piece_;
  variable_list parameters_;
  std::vector<torch::autograd::SavedVariable> inputs_;
  ops::ProductPrecision precision_;
};

}  // namespace

std::vector<at::Tensor> recomputed(const Piece& piece, const std::vector<at::Tensor>& inputs,
                                   const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> out;
  {
    // With gradients enabled, operators take the same code paths as in training. Their graph is
    // released here.
    const at::AutoGradMode with_gradients(true);
    for (const at::Tensor& output : piece(leaves_of(inputs))) out.push_back(output.detach());
  }
  const std::shared_ptr<RecomputedNode> node(new RecomputedNode(piece, inputs, parameters),
                                             torch::autograd::deleteNode);
  ops::refuse_second_derivatives(*node, "recomputed layers");
  for (at::Tensor& output : out) torch::autograd::set_history(output, node);
  return out;
}

}  // namespace penstock
