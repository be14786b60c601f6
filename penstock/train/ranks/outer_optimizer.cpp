#include "penstock/train/ranks/outer_optimizer.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <utility>

#include "penstock/base/error.h"
#include "penstock/train/ranks/agreement.h"
#include "penstock/train/ranks/gradient_tree.h"

namespace penstock {
namespace {

std::string momentum_name(const std::string& parameter) {
  return concat(kOuterState, "momentum.", parameter);
}

/// @param name  "m.PARAMETER", "v.PARAMETER" or "w.PARAMETER"
std::string name_of_rank(std::size_t rank, const std::string& name) {
  return concat(kOuterState, "rank.", rank, ".", name);
}

/// By rank, the nodes of a tree in which each rank has one part.
std::vector<std::vector<PartRange>> one_each(int ranks) {
  std::vector<std::vector<PartRange>> out;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank)
    out.push_back({{rank, rank + 1}});
  return out;
}

at::Tensor mean_of(const UnitTensors& values) {
  at::Tensor sum = values.front().clone();
  for (std::size_t i = 1; i < values.size(); ++i) sum.add_(values[i]);
  return sum.div_(static_cast<double>(values.size()));
}

}  // namespace

OuterOptimizer::OuterOptimizer(std::vector<Updated> parameters, dist::ProcessGroup group,
                               const LocalSteps& local)
    : local_(local),
      group_(std::move(group)),
      parameters_(std::move(parameters)),
      units_(parameter_units(sizes_of(parameters_), {}, group_.size(), group_.size())),
      exchange_(group_) {
  for (const ParameterUnit& unit : units_) {
    const UnitTensors weights = weights_of(unit);
    for (const Span& span : own_spans(unit)) {
      shared_.push_back(span_of(weights, span).clone());
      momentum_.push_back(torch::zeros_like(shared_.back()));
    }
  }
}

UnitTensors OuterOptimizer::weights_of(const ParameterUnit& unit) const {
  UnitTensors out;
  for (const std::size_t p : unit.parameters) out.push_back(parameters_[p].weight.detach());
  return out;
}

UpdateOutcome OuterOptimizer::agree(const UpdateOutcome& mine) const {
  const at::Tensor norms = group_.all_gather(at::full({1}, mine.gradient_norm, at::kDouble));
  UpdateOutcome out;
  for (int rank = 0; rank < group_.size(); ++rank)
    out.gradient_norm += norms[rank].item<double>() / group_.size();
  if (norms.isfinite().all().item<bool>()) return out;
  const std::vector<std::string> failures = group_.gather(mine.failure);
  for (std::size_t rank = 0; rank < failures.size() && out.failure.empty(); ++rank)
    if (!failures[rank].empty())
      out.failure = group_.size() == 1
                        ? failures[rank]
                        : concat(failures[rank], ", on ", group_.name(static_cast<int>(rank)));
  return out;
}

UnitTensors OuterOptimizer::sum_of_ranks(const ParameterUnit& unit) {
  const UnitTensors weights = weights_of(unit);
  if (group_.size() == 1) {
    UnitTensors out;
    for (const Span& span : own_spans(unit)) out.push_back(span_of(weights, span).clone());
    return out;
  }
  const auto ranks = one_each(group_.size());
  const PartRange mine = ranks[static_cast<std::size_t>(group_.rank())].front();
  GradientTree spans(ranks.size());
  exchange_.sum(unit, ranks, {{.range = mine, .gradients = weights}}, weights.front().options(),
                spans);
  return std::move(spans.take().front().gradients);
}

void OuterOptimizer::update(std::size_t span, const at::Tensor& mean) {
  const at::Tensor &shared = shared_[span], &momentum = momentum_[span];
  const at::Tensor gradient = shared - mean;
  momentum.mul_(local_.momentum).add_(gradient);
  shared.copy_(mean);
  // Adding a product with 0 could change the sign of a zero, so it is left out.
  if (local_.lr != 1) shared.add_(gradient, 1 - local_.lr);
  if (local_.momentum != 0) shared.sub_(momentum, local_.lr * local_.momentum);
}

void OuterOptimizer::gather(const ParameterUnit& unit, const UnitTensors& spans,
                            const UnitTensors& whole) {
  if (group_.size() > 1) return exchange_.gather(unit, spans, whole);
  for (std::size_t i = 0; i < spans.size(); ++i) span_of(whole, own_spans(unit)[i]).copy_(spans[i]);
}

void OuterOptimizer::step() {
  const torch::NoGradGuard no_grad;
  std::size_t next = 0;
  for (const ParameterUnit& unit : units_) {
    UnitTensors mine;
    for (at::Tensor& sum : sum_of_ranks(unit)) {
      update(next, sum.div_(group_.size()));
      mine.push_back(shared_[next++]);
    }
    gather(unit, mine, weights_of(unit));
  }
}

OuterOptimizer::Named OuterOptimizer::whole(const UnitTensors& spans) {
  const torch::NoGradGuard no_grad;
  Named out;
  auto next = spans.begin();
  for (const ParameterUnit& unit : units_) {
    const auto end = next + std::ssize(own_spans(unit));
    UnitTensors of_unit;
    for (const std::size_t p : unit.parameters)
      of_unit.push_back(out[parameters_[p].name] = torch::empty_like(parameters_[p].weight));
    gather(unit, UnitTensors(next, end), of_unit);
    next = end;
  }
  return out;
}

std::vector<std::pair<std::string, at::Tensor>> OuterOptimizer::own_state(std::int64_t step) const {
  std::vector<std::pair<std::string, at::Tensor>> out;
  for (const Updated& each : parameters_)
    for (const char* kind : {"m.", "v.", "w."})
      if (*kind != 'w' || apart(step)) out.emplace_back(kind + each.name, each.weight.detach());
  return out;
}

OuterOptimizer::Named OuterOptimizer::state(const Named& moments, std::int64_t step) {
  Named out;
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (group_.rank() != 0 && group_.rank() != rank) continue;
    for (const auto& [name, weight] : own_state(step)) {
      const at::Tensor mine = name.starts_with("w.") ? weight : moments.at(name);
      if (group_.rank() > 0) {
        group_.send(mine.contiguous(), 0);
        continue;
      }
      const at::Tensor theirs = rank == 0 ? mine : torch::empty_like(mine);
      if (rank > 0) group_.receive(theirs, rank);
      out[name_of_rank(static_cast<std::size_t>(rank), name)] = theirs;
    }
  }
  const Named momentum = whole(momentum_);
  if (group_.rank() == 0)
    for (const auto& [name, value] : momentum) out[momentum_name(name)] = value;
  return out;
}

std::vector<OuterOptimizer::Named> OuterOptimizer::tensors_by_rank(const Named& state,
                                                                   std::int64_t step) const {
  std::vector<Named> out(static_cast<std::size_t>(group_.size()));
  std::size_t saved = 1;
  while (state.contains(name_of_rank(saved, "m." + parameters_.front().name))) ++saved;
  for (const Updated& each : parameters_)
    saved_tensor(state, momentum_name(each.name), each.weight.sizes());
  for (const auto& [name, weight] : own_state(step)) {
    UnitTensors of_ranks;
    for (std::size_t rank = 0; rank < saved; ++rank)
      of_ranks.push_back(
          saved_tensor(state, name_of_rank(rank, name), weight.sizes()).to(weight.options()));
    if (saved != out.size()) of_ranks.assign(out.size(), mean_of(of_ranks));
    for (std::size_t rank = 0; rank < out.size(); ++rank) out[rank][name] = of_ranks[rank];
  }
  return out;
}

OuterOptimizer::Named OuterOptimizer::load(const Named& state, std::int64_t step) {
  const torch::NoGradGuard no_grad;
  const std::vector<Named> all = on_all_ranks(group_, [&] {
    return group_.rank() == 0 ? tensors_by_rank(state, step) : std::vector<Named>();
  });
  std::size_t next = 0;
  for (const ParameterUnit& unit : units_) {
    const UnitTensors weights = weights_of(unit);
    UnitTensors momentum;
    for (const std::size_t p : unit.parameters) {
      momentum.push_back(torch::empty_like(parameters_[p].weight));
      if (group_.rank() == 0) momentum.back().copy_(state.at(momentum_name(parameters_[p].name)));
      group_.broadcast(momentum.back());
    }
    for (const Span& span : own_spans(unit)) {
      shared_[next].copy_(span_of(weights, span));
      momentum_[next++].copy_(span_of(momentum, span));
    }
  }
  Named out;
  for (auto& [name, weight] : own_state(step)) {
    at::Tensor& mine = out[name];
    mine = group_.rank() == 0 ? all[0].at(name) : torch::empty_like(weight);
    for (int rank = 1; rank < group_.size() && group_.rank() == 0; ++rank)
      group_.send(all[static_cast<std::size_t>(rank)].at(name).contiguous(), rank);
    if (group_.rank() > 0) group_.receive(mine, 0);
    if (name.starts_with("w.")) weight.copy_(mine);
  }
  return out;
}

}  // namespace penstock
