#include "penstock/train/ranks/gradient_hooks.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace penstock {
namespace {

using torch::autograd::variable_list;

class Done : public torch::autograd::FunctionPostHook {
 public:
  Done(std::size_t parameter, std::function<void(std::size_t)> done)
      : parameter_(parameter), done_(std::move(done)) {}
  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    done_(parameter_);
    return outputs;
  }

 private:
  std::size_t parameter_;
  std::function<void(std::size_t)> done_;
};

}  // namespace

GradientHooks::GradientHooks(const std::vector<at::Tensor>& parameters,
                             const std::function<void(std::size_t)>& done) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto node = torch::autograd::impl::grad_accumulator(parameters[i]);
    const std::uintptr_t key = node->add_post_hook(std::make_unique<Done>(i, done));
    hooks_.push_back({.node = std::move(node), .key = key});
  }
}

GradientHooks::~GradientHooks() {
  for (const Hook& hook : hooks_) hook.node->del_post_hook(hook.key);
}

}  // namespace penstock
