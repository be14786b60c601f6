#include "penstock/train/step/step.h"

#include <torch/types.h>

#include <utility>

#include "penstock/base/error.h"
#include "penstock/ops/profile/profile_clock.h"
#include "penstock/train/ranks/outer_optimizer.h"
#include "penstock/train/ranks/shared_optimizer.h"

namespace penstock {
namespace {

std::string memory_name(std::size_t part, std::size_t layer) {
  return concat("memory.", part, ".", layer);
}

/// How this rank's optimizer shares gradients with other ranks. Ranks that train apart share none.
GradientSharing sharing_of_optimizer(const GradientSharing& sharing) {
  if (sharing.local.steps == 1) return sharing;
  PENSTOCK_ASSERT(sharing.zero == 0 && sharing.world.size() == sharing.data.size());
  return {.tree = sharing.tree};
}

}  // namespace

StepEngine::StepEngine(torch::nn::Module& trained, const OptimizerConfig& config,
                       const LrScale& lr_scale, const GradientSharing& sharing)
    : sharing_(sharing),
      optimizer_(std::make_unique<SharedOptimizer>(trained, config, lr_scale,
                                                   sharing_of_optimizer(sharing))),
      device_(trained.parameters().front().device()) {
  if (sharing.local.steps > 1)
    outer_ = std::make_unique<OuterOptimizer>(trained_parameters(trained, config), sharing.data,
                                              sharing.local);
}

StepEngine::~StepEngine() = default;

bool StepEngine::apart() const { return outer_ && outer_->apart(step_); }

std::map<std::string, at::Tensor> StepEngine::shared_weights() const {
  PENSTOCK_ASSERT(outer_);
  return outer_->shared_weights();
}

PartRange StepEngine::own_parts(std::size_t parts) const {
  return parts_of_rank(parts, sharing_.data.rank(), sharing_.data.size());
}

RoutingContext StepEngine::context(const StepInput& input) const {
  RoutingContext out{
      .step = step_, .total_steps = input.total_steps, .training = true, .k = input.k};
  return out;
}

StepReport StepEngine::accumulate_all(StepWork& work, const StepInput& input,
                                      std::vector<ModelMemory>& memory, const StepWatch& watch) {
  optimizer_->begin(outer_ ? own_parts(work.parts()).size() : work.parts(), work.passes());
  const bool moves = optimizer_->moves_weights();
  const StepWatch entering = [&](const StepPlace& place) {
    if (place.layer < place.layers) optimizer_->enter(place.layer);
    if (watch) watch(place);
  };
  std::function<void()> after_part;  // null without a tree: gradients add up in place
  if (sharing_.tree) after_part = [&] { optimizer_->after_part(); };
  StepReport out;
  const ops::PrecisionScope products(input.precision);
  try {
    out = accumulate(work, context(input), input.draw_seed, memory, moves ? entering : watch,
                     {.data = sharing_.data,
                      .stages = sharing_.stages,
                      .world = sharing_.world,
                      .peers = sharing_.peers,
                      .counts = sharing_.counts,
                      .after_part = after_part,
                      .after_parts = [&] { optimizer_->after_parts(); },
                      .waited = [&] { return optimizer_->pass_waits(); },
                      .replays = !moves});
  } catch (const dist::LostRank&) {
    throw;  // the other ranks are gone, so the step cannot be finished with them
  } catch (...) {
    optimizer_->finish(false);
    throw;
  }
  optimizer_->finish(out.non_finite.empty());
  return out;
}

UpdateOutcome StepEngine::update(std::size_t parts, double lr) {
  if (!outer_) return optimizer_->update(lr);
  // The objective is a mean over all parts; this rank has the gradients of its own parts only.
  const double scale = static_cast<double>(parts) / static_cast<double>(own_parts(parts).size());
  const UpdateOutcome mine = optimizer_->measure(scale);
  UpdateOutcome out = outer_->agree(mine);
  if (out.failure.empty()) optimizer_->update(mine.gradient_norm, lr, scale);
  return out;
}

StepOutcome StepEngine::advance(StepWork& work, const StepInput& input, const StepWatch& watch) {
  const dist::ProcessGroup& group = sharing_.world;
  StepOutcome out{.learning_rate = input.learning_rate,
                  .ranks = group.size(),
                  .expert_ranks = sharing_.expert_ranks,
                  .on_cpu = device_.is_cpu()};
  const double communication = group.seconds();
  std::vector<ModelMemory> memory = memory_;  // memory_ does not change if the step fails
  out.report = accumulate_all(work, input, memory, watch);
  out.failure = out.report.non_finite;
  if (!out.failure.empty()) return out;
  const double accumulated = ops::profile_seconds();
  UpdateOutcome update = this->update(work.parts(), input.learning_rate);
  out.gradient_norm = update.gradient_norm;
  out.failure = std::move(update.failure);
  if (!out.failure.empty()) return out;
  if (input.moves_balancers)
    for (const auto& balancer : work.model().balancers()) balancer->after_step(out.report.routing);
  out.update_seconds = ops::profile_seconds() - accumulated;
  memory_ = std::move(memory);
  if (outer_ && !outer_->apart(step_ + 1)) {  // an outer step is due
    outer_->step();
    out.outer_step = (step_ + 1) / sharing_.local.steps;
  }
  ++step_;
  // What a thread exchanges beside the passes counts only as far as they wait for it.
  out.communication_seconds = group.seconds() - communication - optimizer_->hidden_seconds() +
                              optimizer_->waited_seconds() + optimizer_->pass_waits();
  out.seconds = input.watch.seconds();
  return out;
}

std::map<std::string, at::Tensor> StepEngine::tensors() const {
  std::map<std::string, at::Tensor> out = optimizer_->state();
  if (outer_) out = outer_->state(out, step_);
  out.merge(memory_tensors());
  return out;
}

std::map<std::string, at::Tensor> StepEngine::memory_tensors() const {
  std::map<std::string, at::Tensor> out;
  const PartRange mine = own_parts(memory_.size());
  for (std::size_t part = mine.first; part < mine.last; ++part)
    for (std::size_t layer = 0; layer < memory_[part].size(); ++layer)
      out[memory_name(part, layer)] = memory_[part][layer];
  return out;
}

void StepEngine::restore(std::int64_t step, const std::map<std::string, at::Tensor>& tensors) {
  optimizer_->load_state(outer_ ? outer_->load(tensors, step) : tensors, step);
  restore_memory(tensors);
  step_ = step;
}

void StepEngine::restored(std::int64_t step, const std::map<std::string, at::Tensor>& memory) {
  PENSTOCK_ASSERT(!outer_);
  optimizer_->restored(step);
  restore_memory(memory);
  step_ = step;
}

void StepEngine::restore_memory(const std::map<std::string, at::Tensor>& tensors) {
  memory_.clear();
  for (std::size_t part = 0; tensors.count(memory_name(part, 0)); ++part) {
    ModelMemory& memory = memory_.emplace_back();
    for (std::size_t layer = 0; tensors.count(memory_name(part, layer)); ++layer)
      memory.push_back(tensors.at(memory_name(part, layer)).clone().to(device_));
  }
}

}  // namespace penstock
