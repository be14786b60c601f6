// One optimizer step, whatever is trained: its parts forward and backward, the guard against values
// that are not finite, the update, the balancers, and what was seen on the way. What a part
// computes is a StepWork's: micro-batches of text (language_work.h), or passes over labelled texts
// (finetune/text_passes.h). It writes no files.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "penstock/dist/group.h"
#include "penstock/ops/machine/precision.h"
#include "penstock/optim/adamw.h"
#include "penstock/train/ranks/gradient_sharing.h"
#include "penstock/train/ranks/gradient_tree.h"
#include "penstock/train/step/accumulate.h"
#include "penstock/train/step/step_report.h"

namespace penstock {

/// What a step of an engine is made with.
struct StepInput {
  std::int64_t total_steps = 1;
  std::uint64_t draw_seed = 0;
  double learning_rate = 0;
  std::int64_t k = 0;  ///< experts per token; 0: the model's own
  ops::ProductPrecision precision = ops::ProductPrecision::fp32;  ///< of the passes' products
  bool moves_balancers = true;  ///< whether their shared state moves after the step
  /// When the step began, its data included.
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

class OuterOptimizer;
class SharedOptimizer;

/// The optimizer's state, the memory that parts carry on, and the number of steps done. With
/// several ranks each has an engine, and after a step all have the same weights; but where they
/// train apart (GradientSharing::local), only after an outer step.
class StepEngine {
 public:
  /// @param trained  the module whose parameters are updated. REQUIRES: it outlives the engine.
  StepEngine(torch::nn::Module& trained, const OptimizerConfig& config,
             const LrScale& lr_scale = {}, const GradientSharing& sharing = {});
  ~StepEngine();

  /// Steps done so far.
  std::int64_t step() const { return step_; }
  /// The engine that sums gradients and updates; only advance() makes steps.
  SharedOptimizer& optimizer() { return *optimizer_; }
  /// Whether the ranks' weights differ, as between outer steps.
  bool apart() const;
  /// By name, the trained weights after the last outer step, whole. Every rank calls it.
  /// REQUIRES: apart().
  std::map<std::string, at::Tensor> shared_weights() const;
  /// By part, what the last step handed on.
  const std::vector<ModelMemory>& memory() const { return memory_; }
  /// The routing context of the current step's training passes.
  RoutingContext context(const StepInput& input) const;

  /// Accumulates, clips, updates, moves the balancers. Where a value is not finite the outcome says
  /// so, and nothing but gradients has changed; so it is where `watch` throws.
  StepOutcome advance(StepWork& work, const StepInput& input, const StepWatch& watch = {});

  /// The state that resuming needs beside the weights: moments, and memory.PART.LAYER of this
  /// rank's parts. They alias it, but for moments that ranks divide: those are put together on the
  /// first of these ranks, and every rank calls it. Where ranks train apart, what
  /// OuterOptimizer::state() has is in the place of moments.
  std::map<std::string, at::Tensor> tensors() const;
  /// Continues after that step from what tensors() was, with whole moments on every rank; where
  /// they train apart what rank 0 gives counts, and the weights are the shared ones. Throws Error
  /// where they do not fit.
  void restore(std::int64_t step, const std::map<std::string, at::Tensor>& tensors);
  /// The same once the weights and the optimizer's pieces have been written to. Not where ranks
  /// train apart.  @param memory  of all parts
  void restored(std::int64_t step, const std::map<std::string, at::Tensor>& memory);
  /// memory.PART.LAYER of this rank's parts, which tensors() has too.
  std::map<std::string, at::Tensor> memory_tensors() const;

 private:
  void restore_memory(const std::map<std::string, at::Tensor>& tensors);
  /// Accumulates, and leaves the optimizer the sum over all parts.
  StepReport accumulate_all(StepWork& work, const StepInput& input,
                            std::vector<ModelMemory>& memory, const StepWatch& watch);

  UpdateOutcome update(std::size_t parts, double lr);
  PartRange own_parts(std::size_t parts) const;

  GradientSharing sharing_;
  std::unique_ptr<SharedOptimizer> optimizer_;
  std::unique_ptr<OuterOptimizer> outer_;  // or null
  at::Device device_;
  std::vector<ModelMemory> memory_;
  std::int64_t step_ = 0;
};

}  // namespace penstock
