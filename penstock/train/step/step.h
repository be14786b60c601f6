// One optimizer step of any training: its parts forward and backward, the guard against values that
// are not finite, the update, the balancers, and the step's report. A StepWork computes the parts:
// micro-batches of text (language_work.h), or passes over labelled texts (finetune/text_passes.h).
// It writes no files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "penstock/base/stopwatch.h"
#include "penstock/ops/machine/precision.h"
#include "penstock/optim/adamw.h"
#include "penstock/train/ranks/gradient_sharing.h"
#include "penstock/train/ranks/gradient_tree.h"
#include "penstock/train/step/accumulate.h"
#include "penstock/train/step/step_report.h"

namespace penstock {

/// The inputs of a step.
struct StepInput {
  std::int64_t total_steps = 1;
  std::uint64_t draw_seed = 0;
  double learning_rate = 0;
  std::int64_t k = 0;  ///< experts per token; 0: the model's own
  ops::ProductPrecision precision = ops::ProductPrecision::fp32;  ///< of the passes' GEMMs
  bool moves_balancers = true;  ///< whether balancers update their state after the step
  /// Runs since the step began, before it loaded its data.
  Stopwatch watch = {};
};

class OuterOptimizer;
class SharedOptimizer;

/// The optimizer's state, the memory that parts carry from step to step, and the number of steps
/// done. Every rank has an engine. After a step all ranks have the same weights. Ranks that train
/// apart (GradientSharing::local) have the same weights only after an outer step.
class StepEngine {
 public:
  /// @param trained  the module whose parameters are updated. REQUIRES: `trained` outlives the
  /// engine.
  StepEngine(torch::nn::Module& trained, const OptimizerConfig& config,
             const LrScale& lr_scale = {}, const GradientSharing& sharing = {});
  ~StepEngine();

  /// Steps done so far.
  std::int64_t step() const { return step_; }
  /// The engine that sums gradients and updates; only advance() makes steps.
  SharedOptimizer& optimizer() { return *optimizer_; }
  /// Whether the ranks' weights differ. They do between outer steps.
  bool apart() const;
  /// The whole trained weights after the last outer step, by name. Every rank calls it.
  /// REQUIRES: apart().
  std::map<std::string, at::Tensor> shared_weights() const;
  /// The memory that the last step leaves for the next one, by part.
  const std::vector<ModelMemory>& memory() const { return memory_; }
  /// The routing context of the current step's training passes.
  RoutingContext context(const StepInput& input) const;

  /// Accumulates gradients, clips them, updates the weights and moves the balancers. If a value is
  /// not finite, the outcome says so. In this case, and if `watch` throws, only gradients have
  /// changed.
  StepOutcome advance(StepWork& work, const StepInput& input, const StepWatch& watch = {});

  /// The state that resuming needs in addition to the weights: moments, and memory.PART.LAYER of
  /// this rank's parts. The tensors alias the engine's state. Moments that ranks divide are instead
  /// gathered on the first of these ranks; every rank calls it then. If ranks train apart, the
  /// result has OuterOptimizer::state() in place of the moments.
  std::map<std::string, at::Tensor> tensors() const;
  /// Continues after `step` from the result of tensors(). Every rank passes whole moments. If ranks
  /// train apart, only rank 0's tensors are read, and the weights are the shared weights. Throws
  /// Error if the tensors do not fit.
  void restore(std::int64_t step, const std::map<std::string, at::Tensor>& tensors);
  /// Like restore(), after the caller has written the weights and the optimizer's pieces. REQUIRES:
  /// the ranks do not train apart (asserted).  @param memory  of all parts
  void restored(std::int64_t step, const std::map<std::string, at::Tensor>& memory);
  /// memory.PART.LAYER of this rank's parts. tensors() contains them too.
  std::map<std::string, at::Tensor> memory_tensors() const;

 private:
  void restore_memory(const std::map<std::string, at::Tensor>& tensors);
  /// Computes the gradients; the optimizer then has their sum over all parts.
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
