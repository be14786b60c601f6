// The training state of a fine-tuning, step by step: classifier, optimizer, order of texts, memory.
// Files, signals and progress are run.cpp's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "penstock/finetune/classifier.h"
#include "penstock/finetune/config.h"
#include "penstock/finetune/score.h"
#include "penstock/finetune/text_order.h"
#include "penstock/optim/adamw.h"
#include "penstock/train/step_place.h"

namespace penstock {

struct FinetuneStep {
  double loss = 0;      ///< cross-entropy, nats per text
  double accuracy = 0;  ///< of the batch, with dropout
  double auxiliary_loss = 0, learning_rate = 0, gradient_norm = 0, seconds = 0;
  std::int64_t texts = 0, tokens = 0;
  /// "" or why the update was not made: the state is that of the last good step.
  std::string failure;
};

class Finetuner {
 public:
  /// `config` as read_finetune_config gives it.  @param k  experts per token; 0: the model's own
  Finetuner(std::shared_ptr<Classifier> classifier, EncodedSet train, const FinetuneConfig& config,
            std::int64_t k);

  std::int64_t step() const { return step_; }
  std::int64_t steps() const { return steps_; }
  Classifier& classifier() { return *classifier_; }

  /// One update from one batch. The batch is cut into passes of texts of one length; gradients are
  /// those of  mean_texts CE + Σ_passes (texts of it / texts) · auxiliary losses. What `watch`,
  /// told of each pass's layers, throws is passed on, and the state is that of the step before.
  FinetuneStep advance(const StepWatch& watch = {});
  /// What resuming needs beside the classifier: moments, and memory.<row>.<layer>. They alias it.
  TensorMap optimizer_tensors() const;
  void restore(std::int64_t step, const TensorMap& classifier, const TensorMap& optimizer,
               const std::string& where);

 private:
  struct Sums;
  /// A pass forward and backward; false where its loss is not finite.
  bool pass(std::span<const std::size_t> texts, std::size_t number, double batch,
            std::uint64_t draw_seed, const LayerWatch& watch, ModelMemory* memory, Sums& sums);

  std::shared_ptr<Classifier> classifier_;
  EncodedSet train_;
  FinetuneConfig config_;
  std::int64_t k_;
  TextOrder order_;
  AdamW optimizer_;
  std::vector<ModelMemory> memory_;  // by row of the batch, where it is carried
  std::int64_t steps_, step_ = 0;
};

/// Steps of a run over so many batches an epoch.
std::int64_t total_steps(const FinetuneConfig& config, std::int64_t batches_per_epoch);

}  // namespace penstock
