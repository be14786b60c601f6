#include "penstock/routers/balancers/held_sparsity.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "penstock/base/error.h"

namespace penstock {

HeldSparsity::HeldSparsity(const RouterShape& shape, const HoldConfig& config,
                           torch::nn::Module& owner)
    : config_(config), k_(shape.k), shift_(shape, config.shift, owner) {
  schedule_ = owner.register_buffer("schedule", at::zeros({2}, at::kFloat));
  mean_bias_ = owner.register_buffer("mean_bias", at::zeros_like(shift_.bias()));
}

at::Tensor HeldSparsity::mean_shift(std::int64_t layer) const {
  PENSTOCK_ASSERT(layer < mean_bias_.size(0), "layer ", layer, " of ", mean_bias_.size(0));
  return mean_bias_.select(0, layer);
}

double HeldSparsity::weight(const Plan& plan, std::int64_t layer) const {
  const double shift = shift_.of(layer).mean().item<double>();
  if (shift >= 0 || plan.assignments() == 0) return 0;
  const double sum = plan.weight.detach().sum().item<double>();
  // Gates of 0 have no scale to divide by. A sum that is NaN still reaches the loss.
  if (sum <= 0) return 0;
  const double gate = sum / static_cast<double>(active_assignments(plan));
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
  const double held = settling ? 1 : i - std::max(ramp, 1.0) + 1;  // n
  const double share = std::max(1 / held, 1 / static_cast<double>(config_.average_steps));
  mean_bias_.mul_(1 - share).add_(shift_.bias(), share);
}

}  // namespace penstock
