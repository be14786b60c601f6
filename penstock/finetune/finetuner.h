// The training state of a fine-tuning, step by step: classifier, order of texts, and the engine
// that updates the classifier. The run loop handles files, signals and progress.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "penstock/finetune/classifier.h"
#include "penstock/finetune/config.h"
#include "penstock/finetune/text_order.h"
#include "penstock/train/step/step.h"

namespace penstock {

class Finetuner {
 public:
  /// `config` is from read_finetune_config().  @param k  experts per token; 0: the model's own
  Finetuner(std::shared_ptr<Classifier> classifier, EncodedSet train, const FinetuneConfig& config,
            std::int64_t k);

  std::int64_t step() const { return engine_.step(); }
  std::int64_t steps() const { return steps_; }
  Classifier& classifier() const { return *classifier_; }

  /// Makes one update from one batch (text_passes.h). `watch` is called for each pass's layers. If
  /// it throws, the exception is passed on and the state is that of the step before.
  StepOutcome advance(const StepWatch& watch = {});
  /// The engine's tensors, which resuming needs besides the classifier. They alias the engine's
  /// state.
  TensorMap optimizer_tensors() const { return engine_.tensors(); }
  void restore(std::int64_t step, const TensorMap& classifier, const TensorMap& optimizer,
               const std::string& where);

 private:
  std::shared_ptr<Classifier> classifier_;
  EncodedSet train_;
  FinetuneConfig config_;
  std::int64_t k_;
  TextOrder order_;
  StepEngine engine_;
  std::int64_t steps_;
};

/// The number of steps of a run whose epochs have that many batches.
std::int64_t total_steps(const FinetuneConfig& config, std::int64_t batches_per_epoch);

}  // namespace penstock
