// Writes checkpoints while training goes on: training waits until what it will change has been
// copied, and a thread of its own does the rest. What a checkpoint holds, and when one is due, is
// for others to say.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include "penstock/train/background.h"
#include "penstock/train/checkpoints/checkpoints.h"

namespace penstock {

/// What training does while a checkpoint is written.
enum class Training { goes_on, waits };

/// A checkpoint that is due: what CheckpointStore::save() takes.
struct DueCheckpoint {
  std::int64_t step = 0;
  CheckpointContents contents;
  std::optional<double> validation_loss;
  Superseded superseded = Superseded::remove;
  std::optional<SharedCheckpoint> shared = std::nullopt;
};

/// One thread calls it.
class CheckpointWriter {
 public:
  /// @param store   nobody else uses it between write() and wait()
  /// @param before  called by the writing thread before it writes a checkpoint; what it throws is
  ///                what writing failed with
  CheckpointWriter(CheckpointStore& store, std::function<void()> before)
      : save_([&store, before = std::move(before)](const DueCheckpoint& due) {
          before();
          store.save(due.step, due.contents, due.validation_loss, due.superseded, due.shared);
        }) {}
  /// @param save  called by the writing thread, in place of a store
  explicit CheckpointWriter(std::function<void(const DueCheckpoint&)> save)
      : save_(std::move(save)) {}
  /// Waits neither for other ranks nor for checkpoints that are not begun.
  ~CheckpointWriter() { given_up_ = true; }
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Has the writing thread touch the memory that copies of such contents take, which the first
  /// copy would else wait for: it then takes about seven times as long.
  void make_room(const CheckpointContents& contents);
  /// Where training goes on, returns as soon as the tensors may change: those that anybody else
  /// refers to have been copied, into memory that is kept for the next time. Else returns when the
  /// checkpoint is on the disk, and copies nothing.
  /// REQUIRES: wait() or done() said that the one before is on the disk.
  void write(DueCheckpoint due, Training training);
  /// The same, but where training waits it is the caller who does, by wait().
  void start(DueCheckpoint due, Training training);
  /// Until all is on the disk. Throws what writing failed with.
  void wait() { background_.wait(); }
  /// Whether all is on the disk; waits for nothing. Throws what writing failed with.
  bool done() { return background_.done(); }

 private:
  std::function<void(const DueCheckpoint&)> save_;
  std::atomic<bool> given_up_ = false;
  TensorMap model_copies_, optimizer_copies_;
  Background background_;  // last: its jobs use the others
};

}  // namespace penstock
