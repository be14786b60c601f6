// The messages between the stages of a pipeline in a step: rows between layers, their gradients,
// and tied embeddings. Every message contains the sender's state. So a stage that gives up the step
// still follows the rest of the schedule, and no other stage waits for it in vain.
#pragma once

#include <functional>
#include <vector>

#include "penstock/dist/group.h"
#include "penstock/train/step/step_work.h"

namespace penstock {

/// The state of a stage. A stage that no longer computes still sends its messages, with zeros.
enum class StageState {
  computing,
  gave_up,     ///< an exception was thrown, on this stage or on a stage that sent this state
  not_finite,  ///< a loss was not finite, in the part of the first message with this state
};

class PipelineLink {
 public:
  struct Message {
    StageState state = StageState::computing;
    std::vector<at::Tensor> tensors;  ///< one for each pass; zeros unless `state` is computing
  };

  /// @param stages  the ranks of the pipeline, in the order of the model's layers
  explicit PipelineLink(dist::ProcessGroup stages) : stages_(std::move(stages)) {}

  int stage() const { return stages_.rank(); }
  int stages() const { return stages_.size(); }
  /// The stages that hold the layers before and after a chunk of this stage; -1: none. Stages get
  /// chunks in turn.
  int before(int chunk) const;
  int after(int chunk, int chunks) const;

  /// Starts to send; finish() waits for the end.
  /// @param tensors  of the shape in `form`; not read unless `state` is computing
  void send(const std::vector<at::Tensor>& tensors, const StreamForm& form, StageState state,
            int to);
  Message receive(const StreamForm& form, int from);
  /// Waits until all messages are sent.
  void finish();

 private:
  dist::ProcessGroup stages_;
  std::vector<std::function<void()>> sending_;
};

}  // namespace penstock
