// The parts of a step that this process computes: the whole model's passes, or a stage's, which go
// through its layers in the schedule's order. What the ranks come to together is accumulate.h's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "penstock/train/step/part_record.h"
#include "penstock/train/step/part_sharing.h"
#include "penstock/train/step/pipeline_link.h"
#include "penstock/train/step/pipeline_schedule.h"
#include "penstock/train/step/step_work.h"
#include "penstock/train/step_place.h"

namespace penstock {

/// What a part's passes draw from.
at::Generator generator_of_part(std::uint64_t draw_seed, std::size_t part);

/// Computes parts forward and backward. A stage that is stopped or fails, or is told by another
/// that the step is lost, computes no longer and goes on with what the schedule sends, so that all
/// stages come to its end.
class StepParts {
 public:
  /// As accumulate().  REQUIRES: the arguments outlive it.
  StepParts(StepWork& work, const RoutingContext& context, std::uint64_t draw_seed,
            std::vector<ModelMemory>& memory, const StepWatch& watch, const PartSharing& sharing);

  void run();
  /// The record of all parts. Reads the layers' statistics from the device. REQUIRES: thrown() is
  /// null.
  RankRecord record();
  /// The exception that stopped this rank; null: none.
  const std::exception_ptr& thrown() const { return thrown_; }
  double forward_seconds() const { return forward_seconds_; }
  double backward_seconds() const { return backward_seconds_; }
  /// Of both, without what they waited for other ranks.
  double computed_seconds() const { return forward_seconds_ + backward_seconds_ - waited_; }

 private:
  /// A part between its passes forward and backward.
  struct Held {
    PartInput input;
    PartOutcome out;
    bool computed = false;
  };

  /// What `action` throws is kept, and the step lost. It is passed on where a rank is gone, since
  /// nobody waits for this one any more, and where peers are in the middle of a pass with this one.
  template <class Action>
  void guarded(const Action& action);
  /// The same, unless the step is lost already.
  template <class Action>
  void attempt(const Action& action);
  void hear(StageState state) { state_ = std::max(state_, state); }
  /// Peers are all as the worst of them is.
  void agree();
  /// So far, in operations with peers and for weights.
  double seconds_of_others() const;
  /// Adds the time since `start` to `seconds`, and to waited_ what others took of it.
  void count(double start, double waited_before, double& seconds);
  /// The watch of a part's layers; where there are peers what it throws waits for agree().
  LayerWatch watch_of(std::size_t part);
  void lend_ties();
  void return_ties(const at::Tensor& tied);
  void forward(const StageAction& action, std::size_t part);
  void compute(Held& held);
  void backward(const StageAction& action, std::size_t part);
  /// Where parts go through several chunks in turn: keeps the gradients of this part's pass apart
  /// from other parts', and gives the model all of the part's once they are complete.
  void keep_apart(std::size_t part, bool complete);
  /// Runs the part's passes again and notes the first of this rank's layers whose output is not
  /// finite, unless what came in was not.
  void blame(const Held& held);

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
  std::vector<IndexRange> chunks_;  // layers of each; one empty range: all that the model holds
  std::map<std::pair<int, std::size_t>, Held> held_;          // by chunk and part
  std::map<std::size_t, std::vector<at::Tensor>> gradients_;  // by part, kept apart
  RankRecord record_;
  std::vector<std::vector<RoutingPass>> passes_;  // of record_'s parts
  double forward_seconds_ = 0, backward_seconds_ = 0, waited_ = 0;
};

}  // namespace penstock
