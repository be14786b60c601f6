#include "penstock/train/step/language_work.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <utility>

#include "penstock/models/batch_tensors.h"
#include "penstock/models/counts/flops.h"
#include "penstock/ops/ops.h"

namespace penstock {
namespace {

double readable_pairs(const Batch& batch, std::int64_t memory) {
  if (batch.starts.empty())
    return causal_pairs(batch.sequences, batch.length) +
           static_cast<double>(batch.sequences * batch.length * memory);
  double pairs = 0;
  for (std::size_t i = 0; i < batch.starts.size(); ++i)
    pairs += static_cast<double>(static_cast<std::int64_t>(i) % batch.length - batch.starts[i] + 1);
  return pairs;
}

BatchTensors tensors_of(const LanguageModel& model, const Batch& batch, const PartInput& part) {
  BatchTensors out = to_tensors(batch, model.parameters().front().device());
  if (!batch.fresh) out.input.memory = part.memory;
  out.input.layers = part.layers;
  return out;
}

/// a + b; an undefined tensor counts as 0.
at::Tensor sum(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  return a + b;
}

}  // namespace

/// The passes over one micro-batch, before the backward pass.
struct LanguageWork::Passes {
  at::Tensor total;                 // scalar: Σ of cross-entropies and auxiliary losses
  double cross_entropy = 0;         // mean over the passes
  std::vector<at::Tensor> hidden;   // [R, d] of each pass
  std::vector<at::Tensor> streams;  // [B, T, d] of each pass, before the last layer
  ModelMemory memory;               // of the first pass, for the next step
};

LanguageWork::LanguageWork(LanguageModel& model, std::vector<Batch> micro_batches,
                           std::span<const std::int32_t> token_bytes)
    : model_(model),
      micro_batches_(std::move(micro_batches)),
      token_bytes_(token_bytes),
      objective_(training_objective(model.traits())) {}

PartShare LanguageWork::share(std::size_t) const {
  return {.weight = 1, .divisor = static_cast<double>(micro_batches_.size())};
}

LanguageWork::Passes LanguageWork::run_passes(const PartInput& part) const {
  BatchTensors tensors = tensors_of(model_, micro_batches_[part.index], part);
  tensors.input.watch = part.watch;
  Passes out;
  for (std::size_t pass = 0; pass < static_cast<std::size_t>(objective_.passes); ++pass) {
    if (!part.streams.empty()) tensors.input.stream = part.streams[pass];
    ModelOutput output = model_.forward(tensors.input, part.context, part.tap);
    at::Tensor loss;
    if (output.hidden.defined()) {
      if (part.watch) part.watch(PassDirection::forward, model_.config().layers);
      loss = model_.loss(output.hidden, tensors.targets);
      out.cross_entropy += loss.item<double>() / objective_.passes;
      out.hidden.push_back(output.hidden);
    } else {
      out.streams.push_back(output.stream);
    }
    out.total = sum(out.total, sum(loss, output.auxiliary_loss));
    if (pass == 0) out.memory = std::move(output.memory);
  }
  return out;
}

void LanguageWork::count(const PartInput& part, StepReport& report) const {
  const Batch& batch = micro_batches_[part.index];
  const std::int64_t remembered = batch.fresh || part.memory.empty() ? 0 : part.memory[0].size(1);
  report.remembered.positions += static_cast<double>(batch.sequences * remembered);
  report.remembered.distances += static_cast<double>(remembered + batch.length);
  report.attended_pairs += readable_pairs(batch, remembered);
  report.tokens += batch.sequences * batch.length;
  for (const std::int64_t target : batch.targets)
    report.bytes += token_bytes_[static_cast<std::size_t>(target)];
}

StreamForm LanguageWork::stream_form(std::size_t part) const {
  const Batch& batch = micro_batches_[part];
  return {
      .passes = objective_.passes,
      .sizes = model_.place().rows.sizes(batch.sequences, batch.length, model_.config().d_model),
      .options = model_.parameters().front().options().requires_grad(false)};
}

PartOutcome LanguageWork::forward(const PartInput& part, StepReport& report) {
  Passes passes = run_passes(part);
  PartOutcome out{.objective = passes.total,
                  .loss = passes.cross_entropy,
                  .streams = std::move(passes.streams),
                  .memory = std::move(passes.memory)};
  if (passes.hidden.empty()) return out;
  count(part, report);
  if (objective_.weight + objective_.distillation > 0)
    compare(part, std::move(passes.hidden), out, report);
  return out;
}

at::Tensor LanguageWork::all_experts(const PartInput& part) const {
  const torch::NoGradGuard no_grad;
  return model_
      .forward(tensors_of(model_, micro_batches_[part.index], part).input,
               {.k = model_.config().total_experts()})
      .hidden;
}

void LanguageWork::compare(const PartInput& part, std::vector<at::Tensor> hidden, PartOutcome& out,
                           StepReport& report) const {
  double value = 0;
  if (objective_.distillation > 0) {
    const DivergencePass from =
        divergence_backward(model_, all_experts(part), hidden[0],
                            part.share.of(objective_.distillation), ops::kLogitsBytes);
    value = from.value;
    out.gradients = {from.gradient};
  } else {
    const DisagreementPass between = disagreement_backward(
        model_, hidden[0], hidden[1], part.share.of(objective_.weight), ops::kLogitsBytes);
    value = between.value;
    out.gradients = {between.first_gradient, between.second_gradient};
  }
  report.consistency = report.consistency.value_or(0) + part.share.of(value);
  out.besides = (objective_.weight + objective_.distillation) * value;
  out.roots = std::move(hidden);
}

void LanguageWork::replay(const PartInput& part, const HiddenTap& tap) {
  BatchTensors tensors = tensors_of(model_, micro_batches_[part.index], part);
  for (std::size_t pass = 0; pass < static_cast<std::size_t>(objective_.passes); ++pass) {
    if (!part.streams.empty()) tensors.input.stream = part.streams[pass];
    model_.forward(tensors.input, part.context, part.tap, tap);
  }
}

void LanguageWork::finish(double assignments, StepReport& report) {
  const double passes = objective_.passes;
  report.flops =
      useful_training_flops(model_.multiply_adds(), passes * static_cast<double>(report.tokens),
                            passes * report.attended_pairs, assignments,
                            {.positions = passes * report.remembered.positions,
                             .distances = passes * report.remembered.distances});
  if (objective_.distillation > 0)
    report.flops += useful_forward_flops(
        model_.multiply_adds(), static_cast<double>(report.tokens), report.attended_pairs,
        static_cast<double>(report.tokens * model_.config().moe_layers() *
                            model_.config().total_experts()),
        report.remembered);
}

}  // namespace penstock
