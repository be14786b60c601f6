#include "penstock/finetune/finetuner.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "penstock/base/random.h"
#include "penstock/finetune/text_passes.h"
#include "penstock/optim/schedule.h"

namespace penstock {
namespace {

// Streams of the seed.
constexpr std::uint64_t kOrderStream = 2, kDrawStream = 3;

std::uint64_t seed_of(const FinetuneConfig& config, std::uint64_t stream, std::uint64_t index) {
  return random_bits(static_cast<std::uint64_t>(config.seed), stream, index);
}

}  // namespace

std::int64_t total_steps(const FinetuneConfig& config, std::int64_t batches_per_epoch) {
  if (config.steps > 0) return config.steps;
  return std::max<std::int64_t>(
      1, std::llround(config.epochs * static_cast<double>(batches_per_epoch)));
}

Finetuner::Finetuner(std::shared_ptr<Classifier> classifier, EncodedSet train,
                     const FinetuneConfig& config, std::int64_t k)
    : classifier_(std::move(classifier)),
      train_(std::move(train)),
      config_(config),
      k_(k),
      order_(train_, config.batch, config.length_pool, seed_of(config, kOrderStream, 0),
             config.authors()),
      engine_(*classifier_, config.optimizer),
      steps_(total_steps(config, order_.batches_per_epoch())) {
  config_.optimizer.complete(steps_, "");
  classifier_->train();
}

StepOutcome Finetuner::advance(const StepWatch& watch) {
  const StepInput input{
      .total_steps = steps_,
      .draw_seed = seed_of(config_, kDrawStream, static_cast<std::uint64_t>(step())),
      .learning_rate = learning_rate(config_.optimizer, step(), steps_),
      .k = k_,
      .precision = config_.precision,
      .moves_balancers = config_.auxiliary_losses};
  TextPasses work(*classifier_, train_, order_.at(step()), config_, input.draw_seed);
  StepOutcome out = engine_.advance(work, input, watch);
  if (!config_.auxiliary_losses) out.report.auxiliary_losses.clear();  // they are not minimised
  return out;
}

void Finetuner::restore(std::int64_t step, const TensorMap& classifier, const TensorMap& optimizer,
                        const std::string& where) {
  classifier_->load(classifier, where);
  engine_.restore(step, optimizer);
}

}  // namespace penstock
