// Refusal of second derivatives. An operator's backward pass is a kernel, which autograd cannot
// differentiate again. Without the refusal the missing derivative would count as 0.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <type_traits>
#include <utility>

namespace penstock::ops {

/// Makes the gradients that `node` gives refuse to be differentiated. If a backward pass records a
/// graph (create_graph), a later pass through these gradients throws std::runtime_error with the
/// operator's name. Other backward passes do not change.
void refuse_second_derivatives(torch::autograd::Node& node, const char* op);

/// Calls the autograd function `Function` for the operator `op` and returns its output. If autograd
/// records the call, its gradients refuse to be differentiated.
template <class Function, class... Args>
auto recorded(const char* op, Args&&... args) {
  auto out = Function::apply(std::forward<Args>(args)...);
  at::Tensor first;
  if constexpr (std::is_same_v<decltype(out), at::Tensor>)
    first = out;
  else
    first = out.front();
  if (const auto& node = first.grad_fn()) refuse_second_derivatives(*node, op);
  return out;
}

}  // namespace penstock::ops
