// The parts of a step that this process computes: passes through the whole model, or through a
// stage's layers in the schedule's order. accumulate.h puts the ranks' results together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <map>
#include <utility>
#include <vector>

#include "penstock/train/step/part_record.h"
#include "penstock/train/step/part_sharing.h"
#include "penstock/train/step/pipeline_link.h"
#include "penstock/train/step/pipeline_schedule.h"
#include "penstock/train/step/step_work.h"
#include "penstock/train/step_place.h"

namespace penstock {

/// The random generator of a part's passes.
at::Generator generator_of_part(std::uint64_t draw_seed, std::size_t part);

/// Computes parts forward and backward. A stage stops computing if a signal stops it, if it fails,
/// or if another stage reports that the step is lost. It still sends and receives all messages of
/// the schedule, so that all stages reach the end of the schedule.
class StepParts {
 public:
  /// Arguments as for accumulate().  REQUIRES: the arguments outlive this object.
  StepParts(StepWork& work, const RoutingContext& context, std::uint64_t draw_seed,
            std::vector<ModelMemory>& memory, const StepWatch& watch, const PartSharing& sharing);

  void run();
  /// The record of this rank's parts. Reads the layers' statistics from the device. REQUIRES:
  /// thrown() is null.
  RankRecord record();
  /// The exception that stopped this rank; null: none.
  const std::exception_ptr& thrown() const { return thrown_; }
  double forward_seconds() const { return forward_seconds_; }
  double backward_seconds() const { return backward_seconds_; }
  /// Forward and backward seconds, without the time spent waiting for other ranks.
  double computed_seconds() const { return forward_seconds_ + backward_seconds_ - waited_; }

 private:
  /// A part between its forward and backward pass.
  struct Held {
    PartInput input;
    PartOutcome out;
    bool computed = false;
  };

  /// Calls action(). Keeps its exception in thrown_ and marks the step as lost. Passes on the
  /// exception if a rank is lost, because no rank waits for this rank any more. With peers it
  /// throws FailedRank, because peers are in the middle of a pass with this rank.
  template <class Action>
  void guarded(const Action& action);
  /// The same, unless the step is lost already; then it does nothing.
  template <class Action>
  void attempt(const Action& action);
  void hear(StageState state) { state_ = std::max(state_, state); }
  /// Gives all peers the worst state of any peer.
  void agree();
  /// Seconds so far in operations with peers and in waiting for weights.
  double seconds_of_others() const;
  /// Adds the time since `start` to `seconds`, and the part of it spent on others to waited_.
  void count(double start, double waited_before, double& seconds);
  /// The watch of a part's layers. With peers its exception is kept in thrown_ until agree().
  LayerWatch watch_of(std::size_t part);
  void lend_ties();
  void return_ties(const at::Tensor& tied);
  void forward(const StageAction& action, std::size_t part);
  void compute(Held& held);
  void backward(const StageAction& action, std::size_t part);
  /// With several chunks the passes of different parts alternate. Keeps the gradients of this
  /// part's pass apart from other parts' gradients. Once the part's gradients are complete, puts
  /// all of them into the model.
  void keep_apart(std::size_t part, bool complete);
  /// Runs the part's passes again and notes the first of this rank's layers whose output is not
  /// finite. Notes nothing if the stage's input was not finite.
  void note_not_finite_layer(const Held& held);

  StepWork& work_;
  const RoutingContext& context_;
  std::uint64_t draw_seed_;
  std::vector<ModelMemory>& memory_;
  const StepWatch& watch_;
  const PartSharing& sharing_;
  PipelineLink link_;
  std::vector<dist::ProcessGroup> peers_;
  StageState state_ = StageState::computing;
  std::exception_ptr thrown_;
  std::vector<IndexRange> chunks_;  // each chunk's layers; one empty range: all layers held
  std::map<std::pair<int, std::size_t>, Held> held_;          // by chunk and part
  std::map<std::size_t, std::vector<at::Tensor>> gradients_;  // by part, kept apart
  RankRecord record_;
  std::vector<std::vector<RoutingPass>> passes_;  // by part of record_
  double forward_seconds_ = 0, backward_seconds_ = 0, waited_ = 0;
};

}  // namespace penstock
