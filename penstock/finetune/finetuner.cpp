#include "penstock/finetune/finetuner.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <chrono>
#include <cmath>
#include <numeric>

#include "penstock/base/error.h"
#include "penstock/base/nonfinite.h"
#include "penstock/base/random.h"
#include "penstock/eval/passes.h"
#include "penstock/optim/schedule.h"

namespace penstock {
namespace {

// Streams of the seed.
constexpr std::uint64_t kOrderStream = 2, kDrawStream = 3;
// Tokens of a pass in training; a pass of balancing statistics, so not to be chosen by memory.
constexpr std::int64_t kPassTokens = std::int64_t{1} << 20;

std::string carried_name(std::size_t row, std::size_t layer) {
  return concat("memory.", row, ".", layer);
}

std::uint64_t seed_of(const FinetuneConfig& config, std::uint64_t stream, std::uint64_t index) {
  return random_bits(static_cast<std::uint64_t>(config.seed), stream, index);
}

}  // namespace

std::int64_t total_steps(const FinetuneConfig& config, std::int64_t batches_per_epoch) {
  if (config.steps > 0) return config.steps;
  return std::max<std::int64_t>(
      1, std::llround(config.epochs * static_cast<double>(batches_per_epoch)));
}

struct Finetuner::Sums {
  FinetuneStep step;
  double assignments = 0, pairs = 0;  // on, and all: (token, expert)
};

Finetuner::Finetuner(std::shared_ptr<Classifier> classifier, EncodedSet train,
                     const FinetuneConfig& config, std::int64_t k)
    : classifier_(std::move(classifier)),
      train_(std::move(train)),
      config_(config),
      k_(k),
      order_(train_, config.batch, config.length_pool, seed_of(config, kOrderStream, 0),
             config.authors()),
      optimizer_(*classifier_, {.beta1 = config.beta1,
                                .beta2 = config.beta2,
                                .eps = config.eps,
                                .weight_decay = config.weight_decay,
                                .clip = config.clip}),
      steps_(total_steps(config, order_.batches_per_epoch())) {
  classifier_->train();
}

bool Finetuner::pass(std::span<const std::size_t> texts, std::size_t number, double batch,
                     std::uint64_t draw_seed, const LayerWatch& watch, ModelMemory* memory,
                     Sums& sums) {
  RoutingContext context{.step = step_, .total_steps = steps_, .training = true, .k = k_};
  context.generator = at::detail::createCPUGenerator(mix64(draw_seed + number));
  ClassifierInput input{
      .tokens = stack_texts(train_, texts),
      .memory_length = config_.train_memory,
      .dropout_seed = static_cast<std::int64_t>(random_bits(draw_seed, 1, number) >> 1),
      .watch = watch};
  if (memory) input.memory = *memory;
  ClassifierOutput out =
      classifier_->forward(input, context, [&](std::int64_t, const RoutingResult& routing) {
        if (routing.plan.merges()) return;
        sums.assignments += static_cast<double>(routing.plan.assignments());
        sums.pairs += static_cast<double>(routing.plan.tokens * routing.plan.experts);
      });
  std::vector<std::int64_t> labels;
  for (const std::size_t i : texts) labels.push_back(train_.labels[i]);
  const at::Tensor targets = torch::tensor(labels, torch::kLong);  // [B]
  const at::Tensor loss = at::cross_entropy_loss(out.logits, targets);
  const double share = static_cast<double>(texts.size()) / batch;
  at::Tensor total = loss;
  if (config_.auxiliary_losses && out.auxiliary_loss.defined()) {
    total = total + out.auxiliary_loss;
    sums.step.auxiliary_loss += share * out.auxiliary_loss.item<double>();
  }
  sums.step.loss += share * loss.item<double>();
  sums.step.accuracy +=
      static_cast<double>(out.logits.argmax(1).eq(targets).sum().item<std::int64_t>()) / batch;
  sums.step.texts += std::ssize(texts);
  sums.step.tokens += input.tokens.numel();
  if (const double value = total.item<double>(); !std::isfinite(value)) {
    sums.step.failure = "the loss is " + nonfinite_text(value);
    return false;
  }
  if (memory) *memory = std::move(out.memory);
  (total * share).backward();
  return true;
}

FinetuneStep Finetuner::advance(const StepWatch& watch) {
  const auto start = std::chrono::steady_clock::now();
  const TextIndices& batch = order_.at(step_);
  const std::uint64_t draw_seed = seed_of(config_, kDrawStream, static_cast<std::uint64_t>(step_));
  const bool carries = config_.train_memory > 0;
  std::vector<TextIndices> passes;
  if (carries)
    for (const std::size_t text : batch) passes.push_back({text});
  else
    passes = groups_of_equal_length(train_.lengths(), batch, config_.batch, kPassTokens);
  std::vector<ModelMemory> memory = memory_;  // kept where the step fails
  if (carries) memory.resize(passes.size());
  optimizer_.zero_gradients();
  Sums sums;
  for (std::size_t p = 0; p < passes.size(); ++p)
    if (!pass(passes[p], p, static_cast<double>(batch.size()), draw_seed,
              watch_of_part(watch, p, passes.size(), classifier_->body().config().layers),
              carries ? &memory[p] : nullptr, sums))
      return sums.step;
  FinetuneStep& out = sums.step;
  out.gradient_norm = optimizer_.gradient_norm();
  if (!std::isfinite(out.gradient_norm)) {
    const std::string culprit = optimizer_.non_finite_gradient();
    out.failure = "the gradient is not finite, first in " +
                  (culprit.empty() ? "the global norm (overflow)" : culprit);
    return out;
  }
  out.learning_rate = learning_rate({.shape = config_.lr_schedule,
                                     .lr = config_.lr,
                                     .min_lr = config_.min_lr,
                                     .warmup_steps = config_.warmup_steps,
                                     .total_steps = steps_},
                                    step_);
  optimizer_.step(out.learning_rate, out.gradient_norm);
  if (config_.auxiliary_losses)
    for (const auto& balancer : classifier_->body().balancers())
      balancer->after_step({.sparsity = sums.pairs > 0 ? 1 - sums.assignments / sums.pairs : 0});
  memory_ = std::move(memory);
  ++step_;
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

TensorMap Finetuner::optimizer_tensors() const {
  TensorMap out = optimizer_.state();
  for (std::size_t row = 0; row < memory_.size(); ++row)
    for (std::size_t layer = 0; layer < memory_[row].size(); ++layer)
      out[carried_name(row, layer)] = memory_[row][layer];
  return out;
}

void Finetuner::restore(std::int64_t step, const TensorMap& classifier, const TensorMap& optimizer,
                        const std::string& where) {
  classifier_->load(classifier, where);
  optimizer_.load_state(optimizer, step);
  memory_.clear();
  for (std::size_t row = 0; optimizer.count(carried_name(row, 0)); ++row) {
    ModelMemory& memory = memory_.emplace_back();
    for (std::size_t layer = 0; optimizer.count(carried_name(row, layer)); ++layer)
      memory.push_back(optimizer.at(carried_name(row, layer)));
  }
  step_ = step;
}

}  // namespace penstock
