// The state of shared_optimizer.h: the moments as whole tensors and as pieces, and the bytes that a
// rank holds.
#include <torch/types.h>

#include "penstock/train/ranks/shared_optimizer.h"
#include "penstock/train/ranks/shared_weights.h"

namespace penstock {

HeldBytes SharedOptimizer::held() const {
  const auto bytes = [](const at::Tensor& tensor) {
    return tensor.defined() ? static_cast<std::int64_t>(tensor.nbytes()) : 0;
  };
  HeldBytes out;
  for (const Updated& each : parameters_) {
    // Of a copy that ranks share, each counts its own spans, below.
    if (!is_shared(each.weight))
      out.parameters += static_cast<std::int64_t>(each.weight.storage().nbytes());
    out.gradients += bytes(each.weight.grad());
  }
  std::size_t next = 0;
  for (const ParameterUnit& unit : units_)
    for (std::size_t i = 0; divides() && i < own_spans(unit).size(); ++i, ++next)
      if (moves(unit) || one_copy(unit)) out.parameters += bytes(optimizer_.updated()[next].weight);
  for (const Progress& progress : progress_) {
    for (const at::Tensor& sum : progress.sum) out.gradients += bytes(sum);
    for (const GradientTree* tree : {&progress.own, &progress.spans})
      for (const GradientTree::Node& node : tree->nodes())
        for (const at::Tensor& gradient : node.gradients) out.gradients += bytes(gradient);
  }
  for (const auto* moments : {&optimizer_.first_moments(), &optimizer_.second_moments()})
    for (const at::Tensor& moment : *moments) out.optimizer += bytes(moment);
  return out;
}

std::map<std::string, at::Tensor> SharedOptimizer::state() {
  if (!divides()) return optimizer_.state();
  connect();
  std::map<std::string, at::Tensor> out;
  std::size_t next = 0;
  for (const ParameterUnit& unit : units_) {
    const std::size_t first = next;
    next += own_spans(unit).size();
    for (const std::string prefix : {"m.", "v."}) {
      const auto& moments =
          prefix == "m." ? optimizer_.first_moments() : optimizer_.second_moments();
      const UnitTensors mine(moments.begin() + static_cast<std::ptrdiff_t>(first),
                             moments.begin() + static_cast<std::ptrdiff_t>(next));
      UnitTensors whole;
      for (const std::size_t p : unit.parameters)
        whole.push_back(torch::zeros_like(parameters_[p].weight,
                                          moment_type(optimizer_.config(), parameters_[p].weight)));
      exchange(unit).gather(unit, mine, whole);
      if (group(unit).rank() > 0) continue;
      for (std::size_t i = 0; i < whole.size(); ++i)
        out[prefix + parameters_[unit.parameters[i]].name] = whole[i];
    }
  }
  return out;
}

std::vector<OptimizerPiece> SharedOptimizer::pieces() const {
  std::vector<OptimizerPiece> out;
  const auto add = [&](std::size_t i, std::int64_t begin) {
    const Updated& each = optimizer_.updated()[i];
    out.push_back({.name = each.name,
                   .begin = begin,
                   .end = begin + each.weight.numel(),
                   .weight = each.weight.detach().view(-1),
                   .first_moment = optimizer_.first_moments()[i].view(-1),
                   .second_moment = optimizer_.second_moments()[i].view(-1)});
  };
  if (!divides()) {
    for (std::size_t i = 0; i < optimizer_.updated().size(); ++i) add(i, 0);
    return out;
  }
  std::size_t next = 0;
  for (const ParameterUnit& unit : units_)
    for (const Span& span : own_spans(unit)) add(next++, span.begin);
  return out;
}

void SharedOptimizer::restored(std::int64_t steps) {
  optimizer_.set_steps(steps);
  if (layers_) layers_->take();
}

std::map<std::string, at::Tensor> SharedOptimizer::spans_of(
    const std::map<std::string, at::Tensor>& state) const {
  std::map<std::string, at::Tensor> out;
  for (const ParameterUnit& unit : units_)
    for (const Span& span : own_spans(unit))
      for (const std::string prefix : {"m.", "v."}) {
        const Updated& parameter = parameters_[unit.parameters[span.parameter]];
        const std::string name = prefix + parameter.name;
        if (!state.contains(name)) continue;
        const at::Tensor& whole = saved_tensor(state, name, parameter.weight.sizes());
        out[name] = whole.reshape({-1}).slice(0, span.begin, span.end);
      }
  return out;
}

void SharedOptimizer::load_state(const std::map<std::string, at::Tensor>& state,
                                 std::int64_t steps) {
  optimizer_.load_state(divides() ? spans_of(state) : state, steps);
  if (layers_) layers_->take();
}

}  // namespace penstock
