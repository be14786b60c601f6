#include "penstock/train/step.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/nonfinite.h"
#include "penstock/base/random.h"
#include "penstock/ops/profile_clock.h"
#include "penstock/train/routing_sums.h"

namespace penstock {
namespace {

std::string memory_name(std::size_t part, std::size_t layer) {
  return concat("memory.", part, ".", layer);
}

at::Generator generator_of(std::uint64_t draw_seed, std::size_t part) {
  return at::detail::createCPUGenerator(mix64(draw_seed + part));
}

/// Runs the part's passes again and names the first layer whose output is not finite.
std::string blame(StepWork& work, PartInput part, std::uint64_t draw_seed) {
  torch::NoGradGuard no_grad;
  part.context.generator = generator_of(draw_seed, part.index);  // draws the same numbers again
  std::string culprit;
  work.replay(part, [&](std::int64_t layer, const at::Tensor& hidden) {
    if (culprit.empty() && !hidden.isfinite().all().item<bool>())
      culprit = "layer " + std::to_string(layer);
  });
  return culprit.empty() ? "the output head or an auxiliary loss" : culprit;
}

void backward(const PartOutcome& part, const PartShare& share) {
  std::vector<at::Tensor> roots = {part.objective};
  std::vector<at::Tensor> gradients = {at::full_like(part.objective.detach(), share.of(1))};
  roots.insert(roots.end(), part.roots.begin(), part.roots.end());
  gradients.insert(gradients.end(), part.gradients.begin(), part.gradients.end());
  torch::autograd::backward(roots, gradients);
}

}  // namespace

StepReport accumulate(StepWork& work, const RoutingContext& context, std::uint64_t draw_seed,
                      std::vector<ModelMemory>& memory, const StepWatch& watch) {
  StepReport report;
  RoutingSums sums;
  double weights = 0;
  const std::int64_t layers = work.model().config().layers;
  memory.resize(work.parts());
  for (std::size_t p = 0; p < work.parts(); ++p) {
    const double start = ops::profile_seconds();
    PartInput part{.index = p,
                   .share = work.share(p),
                   .context = context,
                   .memory = memory[p],
                   .watch = watch_of_part(watch, p, work.parts(), layers)};
    part.context.generator = generator_of(draw_seed, p);
    part.tap = [&](std::int64_t layer, const RoutingResult& result) {
      sums.add(layer, result, part.share.weight);
    };
    PartOutcome out = work.forward(part, report);
    const double forward_done = ops::profile_seconds();
    report.forward_seconds += forward_done - start;
    const double total = out.objective.item<double>() + out.besides;
    report.loss += part.share.of(out.loss);
    report.total_loss += part.share.of(total);
    if (!std::isfinite(total)) {
      report.non_finite = fmt::format("the loss is {}, first seen in {}", nonfinite_text(total),
                                      blame(work, part, draw_seed));
      return report;
    }
    memory[p] = std::move(out.memory);
    if (part.watch) part.watch(PassDirection::backward, layers);
    backward(out, part.share);
    report.backward_seconds += ops::profile_seconds() - forward_done;
    weights += part.share.weight;
  }
  work.finish(sums.assignments(), report);
  sums.finish(work.passes() * weights, report);
  return report;
}

StepEngine::StepEngine(torch::nn::Module& trained, const OptimizerConfig& config,
                       const LrScale& lr_scale)
    : optimizer_(trained, config, lr_scale), device_(trained.parameters().front().device()) {}

RoutingContext StepEngine::context(const StepInput& input) const {
  RoutingContext out{
      .step = step_, .total_steps = input.total_steps, .training = true, .k = input.k};
  return out;
}

StepOutcome StepEngine::advance(StepWork& work, const StepInput& input, const StepWatch& watch) {
  StepOutcome out{.learning_rate = input.learning_rate, .on_cpu = device_.is_cpu()};
  optimizer_.zero_gradients();
  std::vector<ModelMemory> memory = memory_;  // kept where the step fails
  out.report = accumulate(work, context(input), input.draw_seed, memory, watch);
  out.failure = out.report.non_finite;
  if (!out.failure.empty()) return out;
  const double accumulated = ops::profile_seconds();
  UpdateOutcome update = optimizer_.update(input.learning_rate);
  out.gradient_norm = update.gradient_norm;
  out.failure = std::move(update.failure);
  if (!out.failure.empty()) return out;
  if (input.moves_balancers)
    for (const auto& balancer : work.model().balancers()) balancer->after_step(out.report.routing);
  out.update_seconds = ops::profile_seconds() - accumulated;
  memory_ = std::move(memory);
  ++step_;
  out.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - input.start).count();
  return out;
}

std::map<std::string, at::Tensor> StepEngine::tensors() const {
  std::map<std::string, at::Tensor> out = optimizer_.state();
  for (std::size_t part = 0; part < memory_.size(); ++part)
    for (std::size_t layer = 0; layer < memory_[part].size(); ++layer)
      out[memory_name(part, layer)] = memory_[part][layer];
  return out;
}

void StepEngine::restore(std::int64_t step, const std::map<std::string, at::Tensor>& tensors) {
  optimizer_.load_state(tensors, step);
  memory_.clear();
  for (std::size_t part = 0; tensors.count(memory_name(part, 0)); ++part) {
    ModelMemory& memory = memory_.emplace_back();
    for (std::size_t layer = 0; tensors.count(memory_name(part, layer)); ++layer)
      memory.push_back(tensors.at(memory_name(part, layer)).to(device_));
  }
  step_ = step;
}

}  // namespace penstock
