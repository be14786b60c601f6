// A language model's training step: micro-batches of text, their passes and losses.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "penstock/data/corpus/batches.h"
#include "penstock/train/step/objective.h"
#include "penstock/train/step/step.h"

namespace penstock {

/// Minimises the training objective (objective.h), averaged over the micro-batches. With two passes
/// both graphs are held until the backward pass, the report counts tokens once and FLOPs twice, and
/// the next step gets the first pass's memory. The report contains the FLOPs of a pass with all
/// experts, but not its routing. A batch with Batch::fresh does not read the memory.
class LanguageWork : public StepWork {
 public:
  /// @param micro_batches  all micro-batches of the step. Micro-batches that another process
  ///                       computes may be empty.
  /// REQUIRES: model and token_bytes outlive this object.
  LanguageWork(LanguageModel& model, std::vector<Batch> micro_batches,
               std::span<const std::int32_t> token_bytes);

  LanguageModel& model() override { return model_; }
  std::size_t parts() const override { return micro_batches_.size(); }
  PartShare share(std::size_t) const override;
  int passes() const override { return objective_.passes; }
  bool pools() const override { return model_.traits().pools_step; }
  StreamForm stream_form(std::size_t part) const override;
  PartOutcome forward(const PartInput& part, StepReport& report) override;
  void replay(const PartInput& part, const HiddenTap& tap) override;
  void finish(double assignments, StepReport& report) override;

 private:
  struct Passes;
  Passes run_passes(const PartInput& part) const;
  /// Rows [R, d] of a pass with all experts, without gradient, in evaluation mode.
  at::Tensor all_experts(const PartInput& part) const;
  /// Computes the disagreement of two passes, or the divergence from the pass with all experts.
  /// Adds its gradients to the outcome and its value to the report.
  void compare(const PartInput& part, std::vector<at::Tensor> hidden, PartOutcome& out,
               StepReport& report) const;
  void count(const PartInput& part, StepReport& report) const;

  LanguageModel& model_;
  std::vector<Batch> micro_batches_;
  std::span<const std::int32_t> token_bytes_;
  Objective objective_;
};

}  // namespace penstock
