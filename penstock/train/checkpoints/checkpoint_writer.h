// Writes checkpoints while training goes on. Training waits only until the tensors that it will
// change have been copied. A thread of the writer does the rest. Callers decide what a checkpoint
// holds and when one is due.
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

/// A checkpoint to write: the arguments of CheckpointStore::save().
struct DueCheckpoint {
  std::int64_t step = 0;
  CheckpointContents contents;
  std::optional<double> validation_loss;
  Superseded superseded = Superseded::remove;
  std::optional<SharedCheckpoint> shared = std::nullopt;
};

/// Only one thread may call its functions.
class CheckpointWriter {
 public:
  /// @param store   not used elsewhere between write() and wait()
  /// @param before  called by the writing thread before it writes a checkpoint. An exception that
  ///                it throws is a failure of writing.
  CheckpointWriter(CheckpointStore& store, std::function<void()> before)
      : save_([&store, before = std::move(before)](const DueCheckpoint& due) {
          before();
          store.save(due.step, due.contents, due.validation_loss, due.superseded, due.shared);
        }) {}
  /// @param save  called by the writing thread to write a checkpoint, in place of a store
  explicit CheckpointWriter(std::function<void(const DueCheckpoint&)> save)
      : save_(std::move(save)) {}
  /// Does not wait for other ranks or for checkpoints whose writing has not begun.
  ~CheckpointWriter() { given_up_ = true; }
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Reserves memory for copies of these contents, and makes the writing thread touch it. Without
  /// this the first copy takes about seven times as long.
  void make_room(const CheckpointContents& contents);
  /// Hands a checkpoint to the writing thread. If training goes on, it first copies the tensors
  /// that others refer to, into memory that is kept for the next checkpoint; once it returns, the
  /// tensors may change. If training waits, it copies nothing and returns once the checkpoint is on
  /// the disk.
  /// REQUIRES: wait() or done() has said that the previous checkpoint is on the disk.
  void write(DueCheckpoint due, Training training);
  /// Like write(), but returns at once if training waits; the caller must then call wait().
  void start(DueCheckpoint due, Training training);
  /// Waits until everything is on the disk. Throws the exception that ended a write.
  /// @param meanwhile  called several times a second while the wait lasts
  void wait(const std::function<void()>& meanwhile = {}) { background_.wait(meanwhile); }
  /// Whether everything is on the disk; does not wait. Throws the exception that ended a write.
  bool done() { return background_.done(); }

 private:
  std::function<void(const DueCheckpoint&)> save_;
  std::atomic<bool> given_up_ = false;
  TensorMap model_copies_, optimizer_copies_;
  Background background_;  // last: its jobs use the other members
};

}  // namespace penstock
