// A fine-tuning's step: divides a batch of labelled texts into passes of one length, and computes
// their losses.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/finetune/classifier.h"
#include "penstock/finetune/config.h"
#include "penstock/finetune/text_order.h"
#include "penstock/train/step/step.h"

namespace penstock {

/// Minimises mean_texts CE + Σ_passes (texts of the pass / texts) · auxiliary losses. If memory is
/// carried, each text is a pass, and each row of the batch has its own memory.
class TextPasses : public StepWork {
 public:
  /// REQUIRES: classifier, texts and config outlive it.
  TextPasses(Classifier& classifier, const EncodedSet& texts, const TextIndices& batch,
             const FinetuneConfig& config, std::uint64_t draw_seed);

  LanguageModel& model() override { return classifier_.body(); }
  std::size_t parts() const override { return passes_.size(); }
  PartShare share(std::size_t part) const override;
  PartOutcome forward(const PartInput& part, StepReport& report) override;
  void replay(const PartInput& part, const HiddenTap& tap) override;

 private:
  ClassifierInput input(const PartInput& part) const;

  Classifier& classifier_;
  const EncodedSet& texts_;
  const FinetuneConfig& config_;
  std::uint64_t draw_seed_;
  double batch_;  // texts
  std::vector<TextIndices> passes_;
};

}  // namespace penstock
