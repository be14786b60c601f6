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

}  // namespace

AdamW::AdamW(torch::nn::Module& model, const OptimizerConfig& config, const LrScale& lr_scale)
    : config_(config) {
  for (auto& item : model.named_parameters()) {
    at::Tensor& weight = item.value();
    if (!weight.requires_grad()) continue;
    names_.push_back(item.key());
    weights_.push_back(weight);
    m_.push_back(torch::zeros_like(weight));
    v_.push_back(torch::zeros_like(weight));
    decay_.push_back(weight.dim() > 1 && config.decay == Decay::decoupled ? config.weight_decay
                                                                          : 0.0);
    const double scale = lr_scale ? lr_scale(item.key()) : 1.0;
    auto group = std::ranges::find(groups_, scale, &Group::lr_scale);
    if (group == groups_.end()) group = groups_.insert(group, {.lr_scale = scale});
    group->members.push_back(names_.size() - 1);
  }
}

std::vector<at::Tensor> AdamW::gradients() {
  std::vector<at::Tensor> out;
  for (auto& weight : weights_) {
    at::Tensor& grad = weight.mutable_grad();
    if (!grad.defined()) grad = torch::zeros_like(weight);
    out.push_back(grad);
  }
  return out;
}

UpdateOutcome AdamW::update(double lr) {
  torch::NoGradGuard no_grad;
  const std::vector<at::Tensor> grads = gradients();
  const double norm = ops::global_norm(grads);
  if (!std::isfinite(norm)) {
    const std::string culprit = non_finite_gradient();
    return {.gradient_norm = norm,
            .failure = "the gradient is not finite, first in " +
                       (culprit.empty() ? "the global norm (overflow)" : culprit)};
  }
  double scale = config_.clip > 0 && norm > config_.clip ? config_.clip / (norm + 1e-6) : 1.0;
  if (config_.decay == Decay::coupled) {
    for (std::size_t i = 0; i < grads.size(); ++i)
      grads[i].mul_(scale).add_(weights_[i], config_.weight_decay);
    scale = 1.0;
  }
  ++steps_;
  for (const Group& group : groups_) {
    const auto of_group = [&](const auto& all) { return picked(all, group.members); };
    auto weights = of_group(weights_), m = of_group(m_), v = of_group(v_);
    ops::adamw_step(weights, of_group(grads), m, v, of_group(decay_),
                    {.lr = lr * group.lr_scale,
                     .beta1 = config_.beta1,
                     .beta2 = config_.beta2,
                     .eps = config_.eps,
                     .grad_scale = scale,
                     .step = steps_});
  }
  return {.gradient_norm = norm};
}

void AdamW::zero_gradients() {
  for (auto& weight : weights_) weight.mutable_grad() = at::Tensor();
}

std::vector<at::Tensor> AdamW::take_gradients() {
  std::vector<at::Tensor> out = gradients();
  zero_gradients();
  return out;
}

void AdamW::set_gradients(std::vector<at::Tensor> gradients) {
  PENSTOCK_ASSERT(gradients.size() == weights_.size());
  for (std::size_t i = 0; i < weights_.size(); ++i)
    weights_[i].mutable_grad() = std::move(gradients[i]);
}

std::map<std::string, at::Tensor> AdamW::state() const {
  std::map<std::string, at::Tensor> out;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    out["m." + names_[i]] = m_[i];
    out["v." + names_[i]] = v_[i];
  }
  return out;
}

void AdamW::load_state(const std::map<std::string, at::Tensor>& state, std::int64_t steps) {
  torch::NoGradGuard no_grad;
  for (auto& [name, target] : this->state()) {
    const auto found = state.find(name);
    PENSTOCK_CHECK(found != state.end(), "optimizer state: '", name, "' is missing");
    PENSTOCK_CHECK(found->second.sizes() == target.sizes(), "optimizer state: '", name,
                   "' has shape ", found->second.sizes(), ", the model asks for ", target.sizes());
    at::Tensor(target).copy_(found->second);
  }
  steps_ = steps;
}

std::string AdamW::non_finite_gradient() const {
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (weights_[i].grad().defined() && !weights_[i].grad().isfinite().all().item<bool>())
      return names_[i];
  return "";
}

}  // namespace penstock
