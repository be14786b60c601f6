// One optimizer step, whatever is trained: its parts forward and backward, the guard against values
// that are not finite, the update, the balancers, and what was seen on the way. What a part
// computes is a StepWork's: micro-batches of text (language_work.h), or passes over labelled texts
// (finetune/text_passes.h). It writes no files.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "penstock/dist/group.h"
#include "penstock/models/language_model.h"
#include "penstock/optim/adamw.h"
#include "penstock/train/step_place.h"
#include "penstock/train/step_report.h"

namespace penstock {

/// How much a part counts in the step's means, and in what the step minimises:
///   Σ_parts weight · objective / divisor.
struct PartShare {
  double weight = 1, divisor = 1;
  double of(double value) const { return value * weight / divisor; }
};

/// What a part is computed with.
struct PartInput {
  std::size_t index = 0;
  PartShare share;
  RoutingContext context;  ///< with a generator of the part's own
  ModelMemory memory;      ///< what the part of that index handed on in the step before
  LayerWatch watch;        ///< may be null
  RoutingTap tap;
};

/// What a part computed forward.
struct PartOutcome {
  at::Tensor objective;  ///< scalar with a graph
  double loss = 0;       ///< the cross-entropy in it
  /// What is minimised besides, whose gradients are known: of these tensors, shared already.
  double besides = 0;
  std::vector<at::Tensor> roots, gradients;
  ModelMemory memory;  ///< for the part of this index in the next step
};

/// The parts of one step.
class StepWork {
 public:
  virtual ~StepWork() = default;
  /// The model whose layers and balancers are at work.
  virtual LanguageModel& model() = 0;
  virtual std::size_t parts() const = 0;
  virtual PartShare share(std::size_t part) const = 0;
  /// Passes over each part.
  virtual int passes() const { return 1; }
  /// A part forward. Adds what only the work knows (tokens, accuracy, ...) to the report.
  virtual PartOutcome forward(const PartInput& part, StepReport& report) = 0;
  /// The part's forward passes again, so that each layer's output is seen.
  virtual void replay(const PartInput& part, const HiddenTap& tap) = 0;
  /// Once after all parts of all ranks.  @param assignments  of all layers and passes
  virtual void finish(double assignments, StepReport& report) {
    static_cast<void>(assignments), static_cast<void>(report);
  }
};

/// How the parts of a step are shared between processes.
struct PartSharing {
  dist::ProcessGroup group;
  /// Called after the backward pass of each part; may be null.
  std::function<void()> after_part;
};

/// Adds the gradients of what this rank's parts (parts_of_rank) minimise to those of the model's
/// parameters. Stops early, without gradients to trust, when a loss is not finite. With several
/// ranks each returns the same report of all parts (but for the seconds), and what stops or fails
/// one is thrown on all.
/// @param context  without a generator
/// @param draw_seed  seeds stochastic routers and dropout; the same value draws the same numbers
/// @param memory  by part, what its rows carry from step to step; grows to their number. To be
///                thrown away where the step fails.
/// @param watch  told of each part's layers, may be null; what it throws is passed on, and leaves
///               part of the gradients behind
StepReport accumulate(StepWork& work, const RoutingContext& context, std::uint64_t draw_seed,
                      std::vector<ModelMemory>& memory, const StepWatch& watch = {},
                      const PartSharing& sharing = {});

/// What a step of an engine is made with.
struct StepInput {
  std::int64_t total_steps = 1;
  std::uint64_t draw_seed = 0;
  double learning_rate = 0;
  std::int64_t k = 0;           ///< experts per token; 0: the model's own
  bool moves_balancers = true;  ///< whether their shared state moves after the step
  /// When the step began, its data included.
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

/// How the gradients of a step's parts are added up.
struct GradientSum {
  /// In a tree over the parts (gradient_tree.h), whose bits do not depend on the number of ranks;
  /// otherwise in turn, in place, which is for one process.
  bool tree = false;
  dist::ProcessGroup group;
};

/// The optimizer's state, the memory that parts carry on, and the number of steps done. With
/// several ranks each has an engine of the same state and makes the same update.
class StepEngine {
 public:
  /// @param trained  the module whose parameters are updated. REQUIRES: it outlives the engine.
  StepEngine(torch::nn::Module& trained, const OptimizerConfig& config,
             const LrScale& lr_scale = {}, GradientSum sum = {});

  /// Steps done so far.
  std::int64_t step() const { return step_; }
  /// By part, what the last step handed on.
  const std::vector<ModelMemory>& memory() const { return memory_; }
  /// The routing context of the current step's training passes.
  RoutingContext context(const StepInput& input) const;

  /// Accumulates, clips, updates, moves the balancers. Where a value is not finite the outcome says
  /// so, and nothing but gradients has changed; so it is where `watch` throws.
  StepOutcome advance(StepWork& work, const StepInput& input, const StepWatch& watch = {});

  /// What resuming needs beside the weights: moments, and memory.PART.LAYER of this rank's parts.
  /// They alias it.
  std::map<std::string, at::Tensor> tensors() const;
  /// Continues after that step from what tensors() was. Throws Error where moments do not fit.
  void restore(std::int64_t step, const std::map<std::string, at::Tensor>& tensors);

 private:
  /// Accumulates, and leaves the sum over all parts as the parameters' gradients.
  StepReport accumulate_all(StepWork& work, const StepInput& input,
                            std::vector<ModelMemory>& memory, const StepWatch& watch);

  AdamW optimizer_;
  GradientSum sum_;
  at::Device device_;
  std::vector<ModelMemory> memory_;
  std::int64_t step_ = 0;
};

}  // namespace penstock
