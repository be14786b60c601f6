#include "penstock/train/step.h"

#include <torch/autograd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>

#include "penstock/base/error.h"
#include "penstock/base/nonfinite.h"
#include "penstock/base/random.h"
#include "penstock/models/batch_tensors.h"
#include "penstock/models/census.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/profile_clock.h"
#include "penstock/routers/routing.h"
#include "penstock/train/objective.h"

namespace penstock {
namespace {

/// Sums what the routing tap sees; divided by the number of passes at the end.
class RoutingSums {
 public:
  void add(std::int64_t layer, const RoutingResult& result) {
    const Plan& plan = result.plan;
    const auto index = static_cast<std::size_t>(layer);
    if (index >= report_.sparsity_by_layer.size()) {
      report_.sparsity_by_layer.resize(index + 1);
      report_.load.resize(index + 1);
    }
    report_.sparsity_by_layer[index] += sparsity(plan);
    const auto tokens = static_cast<double>(std::max<std::int64_t>(1, plan.tokens));
    if (!plan.merges()) {
      auto& load = report_.load[index];
      load.resize(static_cast<std::size_t>(plan.experts));
      const auto* offsets = plan.offsets.data_ptr<std::int64_t>();
      for (std::size_t e = 0; e < load.size(); ++e)
        load[e] += static_cast<double>(offsets[e + 1] - offsets[e]) / tokens;
      assignments_ += static_cast<double>(plan.assignments());
      gate_assignments_ += static_cast<double>(plan.assignments());
      gates_ += static_cast<double>(plan.tokens * plan.experts);
    } else {  // one merged expert per token
      assignments_ += tokens;
    }
    for (const auto& [part, loss] : result.loss_terms)
      report_.auxiliary_losses[part] += loss.item<double>();
    for (const auto& [name, value] : result.statistics)
      if (value.numel() == 1) report_.statistics[name] += value.item<double>();
  }

  double assignments() const { return assignments_; }

  void finish(double passes, double tokens, StepReport& out) {
    const auto layers = static_cast<double>(report_.sparsity_by_layer.size());
    for (double& value : report_.sparsity_by_layer) value /= passes;
    for (auto& layer : report_.load)
      for (double& value : layer) value /= passes;
    for (auto& [name, value] : report_.statistics) value /= passes;
    for (auto& [part, loss] : report_.auxiliary_losses) loss /= passes;
    if (layers > 0) out.active_experts = assignments_ / tokens / layers;
    // From whole counts, so that k·T·L assignments give the target 1 − k/E to the last bit.
    if (gates_ > 0) out.sparsity = 1 - gate_assignments_ / gates_;
    out.sparsity_by_layer = std::move(report_.sparsity_by_layer);
    out.load = std::move(report_.load);
    out.statistics = std::move(report_.statistics);
    out.auxiliary_losses = std::move(report_.auxiliary_losses);
  }

 private:
  StepReport report_;
  double assignments_ = 0;
  double gate_assignments_ = 0, gates_ = 0;  // of plans that assign: (token, expert) pairs, and T·E
};

/// Runs the batch's passes again and names the first layer whose output is not finite.
std::string blame(LanguageModel& model, const BatchTensors& tensors, const RoutingContext& context,
                  int passes) {
  torch::NoGradGuard no_grad;
  std::string culprit;
  for (int pass = 0; pass < passes; ++pass)
    model.forward(tensors.input, context, {}, [&](std::int64_t layer, const at::Tensor& hidden) {
      if (culprit.empty() && !hidden.isfinite().all().item<bool>())
        culprit = "layer " + std::to_string(layer);
    });
  return culprit.empty() ? "the output head or an auxiliary loss" : culprit;
}

double readable_pairs(const Batch& batch, std::int64_t memory) {
  if (batch.starts.empty())
    return causal_pairs(batch.sequences, batch.length) +
           static_cast<double>(batch.sequences * batch.length * memory);
  double pairs = 0;
  for (std::size_t i = 0; i < batch.starts.size(); ++i)
    pairs += static_cast<double>(static_cast<std::int64_t>(i) % batch.length - batch.starts[i] + 1);
  return pairs;
}

/// The passes over one micro-batch, before the backward pass.
struct Passes {
  at::Tensor total;                // scalar: Σ of cross-entropies and auxiliary losses
  double cross_entropy = 0;        // mean of the passes
  std::vector<at::Tensor> hidden;  // [R, d] of each
  ModelMemory memory;              // what the first hands to the next step
};

Passes run_passes(LanguageModel& model, const BatchTensors& tensors, const RoutingContext& context,
                  const RoutingTap& tap, int count) {
  Passes out;
  for (int pass = 0; pass < count; ++pass) {
    ModelOutput output = model.forward(tensors.input, context, tap);
    if (tensors.input.watch) tensors.input.watch(PassDirection::forward, model.config().layers);
    const at::Tensor loss = model.loss(output.hidden, tensors.targets);
    const at::Tensor total = output.auxiliary_loss.defined() ? loss + output.auxiliary_loss : loss;
    out.total = out.total.defined() ? out.total + total : total;
    out.cross_entropy += loss.item<double>() / count;
    out.hidden.push_back(output.hidden);
    if (pass == 0) out.memory = std::move(output.memory);
  }
  return out;
}

}  // namespace

StepReport forward_backward(LanguageModel& model, const std::vector<Batch>& micro_batches,
                            RoutingContext context, std::uint64_t draw_seed,
                            std::span<const std::int32_t> token_bytes,
                            std::vector<ModelMemory>& memory, const StepWatch& watch) {
  StepReport report;
  RoutingSums sums;
  double pairs = 0;
  MemoryWork memory_work;
  memory.resize(micro_batches.size());
  const Objective objective = training_objective(model.config());
  const auto count = static_cast<double>(micro_batches.size());
  const at::Device device = model.parameters().front().device();
  for (std::size_t m = 0; m < micro_batches.size(); ++m) {
    const Batch& batch = micro_batches[m];
    const double start = ops::profile_seconds();
    BatchTensors tensors = to_tensors(batch, device);
    if (!batch.fresh) tensors.input.memory = memory[m];
    tensors.input.watch = watch_of_part(watch, m, micro_batches.size(), model.config().layers);
    context.generator = at::detail::createCPUGenerator(mix64(draw_seed + m));
    Passes passes = run_passes(
        model, tensors, context,
        [&](std::int64_t layer, const RoutingResult& result) { sums.add(layer, result); },
        objective.passes);
    const double forward_done = ops::profile_seconds();
    report.forward_seconds += forward_done - start;
    std::vector<at::Tensor> roots = {count > 1 ? passes.total / count : passes.total};
    std::vector<at::Tensor> gradients = {at::Tensor()};
    double total_value = passes.total.item<double>();
    if (objective.weight > 0) {
      const DisagreementPass between = disagreement_backward(
          model, passes.hidden[0], passes.hidden[1], objective.weight / count, ops::kLogitsBytes);
      report.consistency = report.consistency.value_or(0) + between.value / count;
      total_value += objective.weight * between.value;
      roots.insert(roots.end(), passes.hidden.begin(), passes.hidden.end());
      gradients.insert(gradients.end(), {between.first_gradient, between.second_gradient});
    }
    report.loss += passes.cross_entropy / count;
    report.total_loss += total_value / count;
    if (!std::isfinite(total_value)) {
      RoutingContext replay = context;  // draws the same numbers again
      replay.generator = at::detail::createCPUGenerator(mix64(draw_seed + m));
      report.non_finite = "the loss is " + nonfinite_text(total_value) + ", first seen in " +
                          blame(model, tensors, replay, objective.passes);
      return report;
    }
    const std::int64_t remembered =
        tensors.input.memory.empty() ? 0 : tensors.input.memory[0].size(1);
    memory_work.positions += static_cast<double>(batch.sequences * remembered);
    memory_work.distances += static_cast<double>(remembered + batch.length);
    memory[m] = std::move(passes.memory);
    if (tensors.input.watch) tensors.input.watch(PassDirection::backward, model.config().layers);
    torch::autograd::backward(roots, gradients);
    report.backward_seconds += ops::profile_seconds() - forward_done;
    report.tokens += batch.sequences * batch.length;
    for (const std::int64_t target : batch.targets)
      report.bytes += token_bytes[static_cast<std::size_t>(target)];
    pairs += readable_pairs(batch, remembered);
  }
  const double passes = objective.passes, tokens = passes * static_cast<double>(report.tokens);
  report.flops = useful_training_flops(
      model.config(), tokens, passes * pairs, sums.assignments(),
      {.positions = passes * memory_work.positions, .distances = passes * memory_work.distances});
  sums.finish(passes * count, tokens, report);
  return report;
}

}  // namespace penstock
