#include "penstock/optim/adamw.h"

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"

namespace penstock {
namespace {

template <class T>
std::vector<T> picked(const std::vector<T>& from, const std::vector<std::size_t>& members) {
  std::vector<T> out;
  for (const std::size_t i : members) out.push_back(from[i]);
  return out;
}

/// Whether decoupled decay acts on the parameter. Biases of several experts or heads are one tensor
/// of two axes.
bool decays(const std::string& name, const at::Tensor& weight) {
  return weight.dim() > 1 && !name.ends_with("bias");
}

}  // namespace

std::vector<Updated> trained_parameters(const torch::nn::Module& model,
                                        const OptimizerConfig& config, const LrScale& lr_scale) {
  std::vector<Updated> out;
  for (const auto& item : model.named_parameters()) {
    const at::Tensor& weight = item.value();
    if (!weight.requires_grad()) continue;
    const bool decayed = config.decay == Decay::decoupled && decays(item.key(), weight);
    out.push_back({.name = item.key(),
                   .weight = weight,
                   .decay = decayed ? config.weight_decay : 0.0,
                   .lr_scale = lr_scale ? lr_scale(item.key()) : 1.0});
  }
  return out;
}

at::ScalarType moment_type(const OptimizerConfig& config, const at::Tensor& weight) {
  return config.moments == Moments::bf16 ? at::kBFloat16 : weight.scalar_type();
}

std::string non_finite_text(const std::string& name) {
  return "the gradient is not finite, first in " +
         (name.empty() ? "the global norm (overflow)" : name);
}

const at::Tensor& saved_tensor(const std::map<std::string, at::Tensor>& state,
                               const std::string& name, at::IntArrayRef sizes) {
  const auto found = state.find(name);
  PENSTOCK_CHECK(found != state.end(), "optimizer state: '", name, "' is missing");
  PENSTOCK_CHECK(found->second.sizes() == sizes, "optimizer state: '", name, "' has shape ",
                 found->second.sizes(), ", the model asks for ", sizes);
  return found->second;
}

AdamW::AdamW(const torch::nn::Module& model, const OptimizerConfig& config, const LrScale& lr_scale)
    : AdamW(trained_parameters(model, config, lr_scale), config) {}

AdamW::AdamW(std::vector<Updated> updated, const OptimizerConfig& config)
    : config_(config), updated_(std::move(updated)) {
  for (std::size_t i = 0; i < updated_.size(); ++i) {
    const at::Tensor& weight = updated_[i].weight;
    for (auto* moments : {&m_, &v_})
      moments->push_back(torch::zeros_like(weight, moment_type(config, weight)));
    const double scale = updated_[i].lr_scale;
    auto group = std::ranges::find(groups_, scale, &Group::lr_scale);
    if (group == groups_.end()) group = groups_.insert(group, {.lr_scale = scale});
    group->members.push_back(i);
  }
}

UpdateOutcome AdamW::update(double lr) {
  std::vector<at::Tensor> gradients;
  for (Updated& each : updated_) {
    at::Tensor& gradient = each.weight.mutable_grad();
    if (!gradient.defined()) gradient = torch::zeros_like(each.weight);
    gradients.push_back(gradient);
  }
  const double norm = ops::global_norm(gradients);
  if (std::isfinite(norm)) {
    update(gradients, norm, lr);
    return {.gradient_norm = norm};
  }
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (!gradients[i].isfinite().all().item<bool>())
      return {.gradient_norm = norm, .failure = non_finite_text(updated_[i].name)};
  return {.gradient_norm = norm, .failure = non_finite_text("")};
}

void AdamW::update(const std::vector<at::Tensor>& gradients, double norm, double lr, double scale) {
  const torch::NoGradGuard no_grad;
  PENSTOCK_ASSERT(gradients.size() == updated_.size());
  if (config_.clip > 0 && norm > config_.clip) scale *= config_.clip / (norm + 1e-6);
  if (config_.decay == Decay::coupled) {
    for (std::size_t i = 0; i < gradients.size(); ++i)
      gradients[i].mul_(scale).add_(updated_[i].weight, config_.weight_decay);
    scale = 1.0;
  }
  ++steps_;
  for (const Group& group : groups_) {
    std::vector<at::Tensor> weights;
    std::vector<double> decay;
    for (const std::size_t i : group.members) {
      weights.push_back(updated_[i].weight);
      decay.push_back(updated_[i].decay);
    }
    ops::adamw_step(weights, picked(gradients, group.members), picked(m_, group.members),
                    picked(v_, group.members), decay,
                    {.lr = lr * group.lr_scale,
                     .beta1 = config_.beta1,
                     .beta2 = config_.beta2,
                     .eps = config_.eps,
                     .grad_scale = scale,
                     .step = steps_});
  }
}

void AdamW::zero_gradients() {
  for (Updated& each : updated_) each.weight.mutable_grad() = at::Tensor();
}

std::map<std::string, at::Tensor> AdamW::state() const {
  std::map<std::string, at::Tensor> out;
  for (std::size_t i = 0; i < updated_.size(); ++i) {
    out["m." + updated_[i].name] = m_[i];
    out["v." + updated_[i].name] = v_[i];
  }
  return out;
}

void AdamW::load_state(const std::map<std::string, at::Tensor>& state, std::int64_t steps) {
  const torch::NoGradGuard no_grad;
  for (auto& [name, target] : this->state())
    at::Tensor(target).copy_(saved_tensor(state, name, target.sizes()));
  steps_ = steps;
}

}  // namespace penstock
