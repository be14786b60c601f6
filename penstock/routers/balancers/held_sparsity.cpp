#include "penstock/routers/balancers/held_sparsity.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>

namespace penstock {

HeldSparsity::HeldSparsity(const RouterShape& shape, const HoldConfig& config,
                           torch::nn::Module& owner)
    : config_(config), k_(shape.k), shift_(shape, config.shift, owner) {
  schedule_ = owner.register_buffer("schedule", at::zeros({2}, at::kFloat));
}

double HeldSparsity::weight(const Plan& plan, std::int64_t layer) const {
  const double shift = shift_.of(layer).mean().item<double>();
  if (shift >= 0 || plan.assignments() == 0) return 0;
  const double sum = plan.weight.detach().sum().item<double>();
  const double gate = sum / static_cast<double>(plan.assignments());
  return config_.strength * std::min(1.0, -shift / gate) * static_cast<double>(plan.tokens) /
         (static_cast<double>(shift_.bias().size(0)) * sum);
}

void HeldSparsity::after_step(const StepStatistics& step) {
  at::Tensor schedule = schedule_.to(at::kCPU, at::kDouble).clone();
  double& steps = schedule.data_ptr<double>()[0];
  double& first = schedule.data_ptr<double>()[1];
  const double i = ++steps - static_cast<double>(config_.dense_steps);
  const auto ramp = static_cast<double>(config_.ramp_steps);
  if (i == 1) {
    const double active = (1 - step.sparsity) * static_cast<double>(shift_.bias().size(1));
    first = std::max(active, k_ / 1000);
  }
  schedule_.copy_(schedule);
  if (i < 1) return;
  const bool settling = i < ramp;
  shift_.move(step, settling ? k_ * std::pow(first / k_, 1 - i / ramp) : k_, settling);
}

}  // namespace penstock
