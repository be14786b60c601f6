#include "penstock/train/ranks/shared_optimizer.h"

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/stopwatch.h"
#include "penstock/train/ranks/shared_weights.h"
#include "penstock/train/ranks/tensor_exchange.h"

namespace penstock {

SharedOptimizer::SharedOptimizer(const torch::nn::Module& trained, const OptimizerConfig& config,
                                 const LrScale& lr_scale, GradientSharing sharing)
    : sharing_(std::move(sharing)),
      parameters_(trained_parameters(trained, config, lr_scale)),
      units_(parameter_units(sizes_of(parameters_), sharing_.of_experts, sharing_.data.size(),
                             sharing_.replicas.size())),
      unit_of_(parameters_.size()),
      optimizer_(divides() ? updated_spans() : parameters_, config) {
  PENSTOCK_ASSERT(sharing_.tree || sharing_.alone());
  PENSTOCK_ASSERT(sharing_.world.size() >= sharing_.data.size());
  for (std::size_t u = 0; u < units_.size(); ++u)
    for (const std::size_t p : units_[u].parameters) unit_of_[p] = u;
}

/// This rank's spans of all units, in the order of the units. They are views of the weights.
std::vector<Updated> SharedOptimizer::updated_spans() const {
  std::vector<Updated> out;
  for (const ParameterUnit& unit : units_)
    for (const Span& span : own_spans(unit)) {
      Updated piece = parameters_[unit.parameters[span.parameter]];
      piece.weight = piece.weight.detach().view(-1).slice(0, span.begin, span.end);
      out.push_back(std::move(piece));
    }
  return out;
}

/// Copies this rank's spans of the layers' weights, so that whole weights can be freed between
/// passes.
void SharedOptimizer::divide_layers() {
  const torch::NoGradGuard no_grad;
  std::vector<LayerUnit> out;
  std::size_t next = 0;
  for (const ParameterUnit& unit : units_) {
    LayerUnit layer{.unit = unit, .spans = own_spans(unit)};
    for (std::size_t i = 0; i < layer.spans.size(); ++i)
      layer.own.push_back(optimizer_.updated()[next++].weight);
    if (unit.layer < 0 || group(unit).size() == 1) continue;
    for (const at::Tensor& own : layer.own) own.set_data(own.clone());
    for (const std::size_t p : unit.parameters) layer.weights.push_back(parameters_[p].weight);
    out.push_back(std::move(layer));
  }
  if (!out.empty()) layers_ = std::make_unique<LayerWeights>(std::move(out));
}

/// Moves the weights into memory that the ranks of each group share. If a group of the run cannot
/// share memory, no group does: ranks that enter layers together must agree on whether weights
/// move.
void SharedOptimizer::hold_one_copy() {
  struct Kind {
    const dist::ProcessGroup& group;
    std::vector<at::Tensor> weights;
    at::Tensor memory;
  };
  std::vector<Kind> kinds;
  for (const bool experts : {false, true}) {
    Kind kind{.group = experts ? sharing_.replicas : sharing_.data};
    for (const ParameterUnit& unit : units_)
      for (const std::size_t p : unit.parameters)
        if (unit.experts == experts) kind.weights.push_back(parameters_[p].weight);
    if (kind.group.size() == 1 || kind.weights.empty()) continue;
    kind.memory = shared_memory_for(kind.group, kind.weights);
    kinds.push_back(std::move(kind));
  }
  const bool mine =
      std::ranges::all_of(kinds, [](const Kind& kind) { return kind.memory.defined(); });
  const at::Tensor can = sharing_.world.all_gather(at::full({1}, mine ? 1 : 0, at::kLong));
  if (can.min().item<std::int64_t>() == 0) return;
  for (const Kind& kind : kinds) move_weights(kind.group, kind.weights, kind.memory);
  one_copy_ = true;
}

void SharedOptimizer::connect() {
  if (connected_ || sharing_.alone()) return;
  if (divides()) hold_one_copy();
  if (divides() && sharing_.zero == 3 && !one_copy_) divide_layers();
  exchange_ = UnitExchange(sharing_.data.split("gradients", 0));
  const bool experts = std::ranges::any_of(units_, &ParameterUnit::experts);
  if (experts) expert_exchange_ = UnitExchange(sharing_.replicas.split("expert gradients", 0));
  if (layers_)  // own groups, because another thread gathers weights, in another order
    layers_->connect(
        UnitExchange(sharing_.data.split("weights", 0)),
        experts ? UnitExchange(sharing_.replicas.split("expert weights", 0)) : UnitExchange());
  if (sharing_.overlap) add_hooks();
  connected_ = true;
}

void SharedOptimizer::add_hooks() {
  std::vector<at::Tensor> weights;
  for (const Updated& each : parameters_) weights.push_back(each.weight);
  hooks_ = std::make_unique<GradientHooks>(weights, [this](std::size_t p) { gradient_done(p); });
}

void SharedOptimizer::begin(std::size_t parts, int passes) {
  for (Updated& each : parameters_) each.weight.mutable_grad() = at::Tensor();
  hidden_seconds_ = waited_seconds_ = pass_waits_ = 0;
  if (!sharing_.tree) return;
  connect();
  const auto ranks = static_cast<std::size_t>(sharing_.data.size());
  const std::size_t rounds = (parts + ranks - 1) / ranks;
  PENSTOCK_ASSERT(!sharing_.of_experts || parts % ranks == 0);
  progress_.clear();
  for (const ParameterUnit& unit : units_) {
    Progress& progress = progress_.emplace_back();
    progress.parts =
        unit.experts ? rounds * static_cast<std::size_t>(sharing_.replicas.size()) : parts;
    progress.range = parts_of_rank(progress.parts, group(unit).rank(), group(unit).size());
    progress.own = progress.spans = GradientTree(progress.parts);
    progress.missing = unit.parameters.size();
  }
  seen_.assign(parameters_.size(), false);
  part_ = next_ = 0;
  // With zero >= 2 the ranks exchange one part each at a time.
  rounds_ = sharing_.zero >= 2 ? rounds : 1;
  active_ = true;
  if (!layers_) return;
  layer_seconds_ = layers_->seconds();
  layers_->begin(rounds, passes);
}

bool SharedOptimizer::due() const {
  return sharing_.zero >= 2 || part_ + 1 == progress_.front().range.size();
}

void SharedOptimizer::gradient_done(std::size_t parameter) {
  const std::size_t u = unit_of_[parameter];
  // A parameter of no single layer may get more than one gradient in a pass.
  if (!active_ || !due() || units_[u].layer < 0 || seen_[parameter]) return;
  seen_[parameter] = true;
  --progress_[u].missing;
  const std::size_t end = first_of_part() + units_.size();
  while (next_ < end && progress_[next_ % units_.size()].missing == 0)
    submit(take(units_[next_ % units_.size()]));
}

GradientTree::Gradients SharedOptimizer::take(const ParameterUnit& unit) {
  GradientTree::Gradients out;
  for (const std::size_t p : unit.parameters) {
    const at::Tensor& weight = parameters_[p].weight;
    at::Tensor& gradient = weight.mutable_grad();
    out.push_back(gradient.defined() ? gradient.contiguous() : torch::zeros_like(weight));
    gradient = at::Tensor();
  }
  return out;
}

void SharedOptimizer::after_part() {
  if (!sharing_.tree) return;
  const std::size_t submitted = next_ - first_of_part();
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const ParameterUnit& unit = units_[u];
    Progress& progress = progress_[u];
    progress.missing = unit.parameters.size();
    if (u < submitted) {
      for (const std::size_t p : unit.parameters)
        PENSTOCK_ASSERT(!parameters_[p].weight.grad().defined(), parameters_[p].name);
    } else if (due()) {
      submit(take(unit));
    } else {
      const std::size_t part = progress.range.first + part_;
      progress.own.add({.range = {part, part + 1}, .gradients = take(unit)});
    }
  }
  seen_.assign(parameters_.size(), false);
  ++part_;
}

void SharedOptimizer::after_parts() {
  // Other ranks may have more parts. They enter their next layer, whose weights this rank gathers
  // too, only while few of their gradients wait for this rank. So exchanges come first.
  if (active_) hand_in_the_rest(part_ == progress_.front().range.size());
  if (!layers_) return;
  const Stopwatch watch;
  layers_->pass_through();
  pass_waits_ += watch.seconds();
}

void SharedOptimizer::hand_in_the_rest(bool complete) {
  while (next_ < rounds_ * units_.size() && !sharing_.alone()) submit({}, complete);
}

void SharedOptimizer::submit(GradientTree::Gradients gradients, bool complete) {
  const std::size_t unit = next_ % units_.size(), round = next_ / units_.size();
  const bool holds = !gradients.empty();
  ++next_;
  if (sharing_.alone()) return add_up(unit, round, std::move(gradients), complete);
  auto job = [this, unit, round, complete, gradients = std::move(gradients)]() mutable {
    const double before = exchange_.seconds() + expert_exchange_.seconds();
    add_up(unit, round, std::move(gradients), complete);
    hidden_seconds_ += exchange_.seconds() + expert_exchange_.seconds() - before;
  };
  // Waits, so that whole gradients do not pile up. Ranks with peers do not wait here, because they
  // already wait for each other in a pass. A rank without gradients never waits.
  const bool alone = sharing_.world.size() == sharing_.data.size() && sharing_.expert_ranks == 1;
  const bool waits = sharing_.zero >= 2 && alone && holds;
  const Stopwatch watch;
  background_.add(std::move(job), waits ? 2 : SIZE_MAX);
  pass_waits_ += watch.seconds();
}

void SharedOptimizer::enter(std::int64_t layer) {
  const Stopwatch watch;
  layers_->enter(layer);
  pass_waits_ += watch.seconds();
}

std::vector<std::vector<PartRange>> SharedOptimizer::nodes_of_ranks(std::size_t unit,
                                                                    std::size_t round) const {
  const std::size_t parts = progress_[unit].parts;
  const int ranks = group(units_[unit]).size();
  std::vector<std::vector<PartRange>> out;
  for (int rank = 0; rank < ranks; ++rank) {
    const PartRange range = parts_of_rank(parts, rank, ranks);
    const std::size_t part = range.first + round;
    if (sharing_.zero < 2)
      out.push_back(GradientTree::nodes_within(parts, range));
    else if (part < range.last)
      out.push_back({{part, part + 1}});
    else
      out.emplace_back();
  }
  return out;
}

void SharedOptimizer::add_up(std::size_t u, std::size_t round, GradientTree::Gradients gradients,
                             bool complete) {
  const ParameterUnit& unit = units_[u];
  Progress& progress = progress_[u];
  if (!gradients.empty()) {
    const std::size_t part =
        sharing_.zero >= 2 ? progress.range.first + round : progress.range.last - 1;
    progress.own.add({.range = {part, part + 1}, .gradients = std::move(gradients)});
  }
  const bool last = round + 1 == rounds_;
  if (group(unit).size() == 1) {
    if (last && complete) progress.sum = std::move(progress.own.take().front().gradients);
    return;
  }
  const at::TensorOptions options =
      parameters_[unit.parameters.front()].weight.options().requires_grad(false);
  std::vector<GradientTree::Node> mine = progress.own.take();
  if (!complete) mine.clear();
  exchange(unit).sum(unit, nodes_of_ranks(u, round), mine, options, progress.spans);
  if (!last) return;
  UnitTensors spans;
  if (complete)
    spans = std::move(progress.spans.take().front().gradients);
  else
    for (const Span& span : own_spans(unit)) spans.push_back(at::zeros({span.size()}, options));
  if (sharing_.zero > 0) {
    progress.sum = std::move(spans);
    return;
  }
  if (mine.empty()) {
    mine.emplace_back();
    for (const std::size_t p : unit.parameters)
      mine.front().gradients.push_back(at::empty(parameters_[p].weight.sizes(), options));
  }
  progress.sum = std::move(mine.front().gradients);
  exchange(unit).gather(unit, spans, progress.sum);
}

void SharedOptimizer::finish(bool complete) {
  if (!active_) return;
  active_ = false;
  hand_in_the_rest(complete);
  const Stopwatch watch;
  try {
    background_.wait();
  } catch (...) {
    if (complete) throw;  // otherwise the caller reports why the step is incomplete
  }
  waited_seconds_ = watch.seconds();
  if (!complete) return;
  if (layers_) hidden_seconds_ += layers_->seconds() - layer_seconds_;
  sum_shares();
}

/// Called once in a step, after the sums over parts. With zero > 0 it sums this rank's spans only.
void SharedOptimizer::sum_shares() {
  if (!sharing_.in_shares) return;
  std::vector<at::Tensor> vectors;  // summed together; each matrix alone, to need less memory
  for (std::size_t u = 0; u < units_.size(); ++u) {
    const ParameterUnit& unit = units_[u];
    for (std::size_t i = 0; i < progress_[u].sum.size(); ++i) {
      const std::size_t p = unit.parameters[divides() ? own_spans(unit)[i].parameter : i];
      if (!sharing_.in_shares(parameters_[p].name)) continue;
      const at::Tensor& sum = progress_[u].sum[i];
      if (parameters_[p].weight.dim() > 1)
        sum_tensors(sharing_.tensor, {sum});
      else
        vectors.push_back(sum);
    }
  }
  sum_tensors(sharing_.tensor, vectors);
}

UnitTensors SharedOptimizer::whole_weights(const ParameterUnit& unit) const {
  UnitTensors out;
  for (const std::size_t p : unit.parameters) out.push_back(parameters_[p].weight.detach());
  return out;
}

void SharedOptimizer::gather_weights() {
  if (layers_) layers_->gather();
}

}  // namespace penstock
