// The messages between the stages of a pipeline in a step: the rows between layers, their
// gradients, and tied embeddings. Every message says how its sender is, so that a stage which gives
// up the step takes part in the rest of the schedule, and no other waits for it in vain.
#pragma once

#include <functional>
#include <vector>

#include "penstock/dist/group.h"
#include "penstock/train/step/step_work.h"

namespace penstock {

/// How a stage is. One that computes no longer still sends what others wait for, without content.
enum class StageState {
  computing,
  gave_up,     ///< something was thrown, here or on a stage that said so
  not_finite,  ///< a loss was not finite, of the part that this was first said with
};

class PipelineLink {
 public:
  struct Message {
    StageState state = StageState::computing;
    std::vector<at::Tensor> tensors;  ///< of each pass; without content unless it is computing
  };

  /// @param stages  the ranks that hold one model between them, in the order of its layers
  explicit PipelineLink(dist::ProcessGroup stages) : stages_(std::move(stages)) {}

  int stage() const { return stages_.rank(); }
  int stages() const { return stages_.size(); }
  /// The stage that holds the layers before a chunk of this one, and that with those after it; -1:
  /// none. Chunks are dealt to the stages in turn.
  int before(int chunk) const;
  int after(int chunk, int chunks) const;

  /// Goes on beside what follows, until finish(). @param tensors  of that form, or none
  void send(const std::vector<at::Tensor>& tensors, const StreamForm& form, StageState state,
            int to);
  Message receive(const StreamForm& form, int from);
  /// Waits until all is sent.
  void finish();

 private:
  dist::ProcessGroup stages_;
  std::vector<std::function<void()>> sending_;
};

}  // namespace penstock
