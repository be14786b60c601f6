// Tells when a parameter's gradient of a backward pass is complete.
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

/// From construction to destruction calls done(i) in every backward pass, on its thread, after the
/// gradient of parameters[i] was added to its grad(). A parameter that the pass does not reach is
/// not heard of.
class GradientHooks {
 public:
  GradientHooks(const std::vector<at::Tensor>& parameters,
                const std::function<void(std::size_t)>& done);
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;
  ~GradientHooks();

 private:
  struct Hook {
    std::shared_ptr<torch::autograd::Node> node;  // that adds up the gradient
    std::uintptr_t key;
  };
  std::vector<Hook> hooks_;
};

}  // namespace penstock
