// Calls a function when a backward pass has completed a parameter's gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace torch::autograd {
struct Node;
}

namespace penstock {

/// Calls done(i) in every backward pass after the pass has added the gradient of parameters[i] to
/// its grad(). The call is on the thread of the backward pass. There is no call for a parameter
/// that the pass does not reach. The destructor ends the calls.
class GradientHooks {
 public:
  GradientHooks(const std::vector<at::Tensor>& parameters,
                const std::function<void(std::size_t)>& done);
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;
  ~GradientHooks();

 private:
  struct Hook {
    std::shared_ptr<torch::autograd::Node> node;  // it adds up the parameter's gradient
    std::uintptr_t key;
  };
  std::vector<Hook> hooks_;
};

}  // namespace penstock
