// The interface between the run loop and a training or a fine-tuning: its plan, its step, its
// measurement, its state and its result. run_loop.h runs such a task.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "penstock/train/checkpoints/checkpoint_writer.h"
#include "penstock/train/checkpoints/checkpoints.h"
#include "penstock/train/run_record.h"
#include "penstock/train/step/objective_watch.h"
#include "penstock/train/step_place.h"

namespace penstock {

/// When a run measures and saves, and how it reports.
struct RunPlan {
  std::int64_t steps = 1;
  std::int64_t measure_every = 0;     ///< steps between measurements; the last step has one too
  bool measure_first = false;         ///< also before the first step
  bool measure_last = false;          ///< at the last step even if measure_every is 0
  std::int64_t checkpoint_every = 0;  ///< 0: at the end, and after the best measurement
  /// Bytes of the copy from which a checkpoint before the end is written while training goes on. If
  /// they are 0 or more than `memory_left`, training waits for each checkpoint.
  std::int64_t copy_bytes = 0;
  double memory_left = 0;  ///< bytes of memory that training leaves
  CheckpointPolicy checkpoints;
  bool tensorboard = true;
  double smoothing = 0;  ///< weight of earlier steps in the progress line's loss and accuracy
  WatchedSettings settings;
  std::string part = "micro-batch";  ///< name of a part of a step
  std::string result_file;
};

/// The result of a measurement.
struct Measured {
  double loss = 0;    ///< the checkpoint with the lowest loss is the best
  std::string shown;  ///< text for the progress line, such as "valid 1.6000"
};

/// A measurement calls the watch from time to time; `text` makes the line to show. The watch throws
/// to end the measurement.
using MeasureWatch = std::function<void(const std::function<std::string()>& text)>;

/// Which ranks write checkpoints: rank 0 alone, or all ranks, each its own piece.
struct Writers {
  int ranks = 1;
  std::string note;  ///< why rank 0 writes alone although all ranks should; "" otherwise
  /// With several ranks `copy_bytes` and `memory_left` replace those of RunPlan. They are the bytes
  /// of the largest piece of any rank, and the memory left on the rank with the least.
  std::int64_t copy_bytes = 0;
  double memory_left = 0;
};

/// The order to all ranks to write their pieces of a checkpoint.
struct PieceOrder {
  std::filesystem::path directory;
  std::int64_t step = 0;
  Training training = Training::goes_on;
};

/// A training or a fine-tuning, as the loop runs it.
class RunTask {
 public:
  virtual ~RunTask() = default;
  virtual RunPlan plan() const = 0;
  /// Notes that the loop shows at its beginning.
  virtual std::vector<std::string> notes() const = 0;
  /// The text of the run's config.toml.
  virtual std::string config_text() const = 0;
  /// Throws Error unless the directory holds this run. Returns the number of steps that the run was
  /// begun for if this task has more, else 0.
  virtual std::int64_t check_same_run(const std::string& directory) const = 0;

  virtual std::int64_t step() const = 0;
  virtual StepOutcome advance(const StepWatch& watch) = 0;
  virtual MachineRecord machine() const = 0;
  /// The contents of a checkpoint, without the entries that the loop adds to `trainer`.
  virtual CheckpointContents contents() = 0;
  /// @param contents  mapped from files (open_checkpoint())
  virtual void restore(const CheckpointInfo& info, const CheckpointContents& contents) = 0;

  /// Says which ranks write checkpoints. Called once, before anything is restored or saved, with
  /// the folder of all checkpoints.
  virtual Writers writers(const std::filesystem::path& /*checkpoints*/, FileSystem& /*files*/) {
    return {};
  }
  /// Called if all ranks write. Makes the other ranks write their pieces, and returns contents()
  /// with this rank's tensors only.
  virtual CheckpointContents piece(const PieceOrder& /*order*/) { return contents(); }
  /// The contents with the tensors to copy for a checkpoint that is written while training goes on.
  virtual CheckpointContents to_copy() { return contents(); }
  /// Waits until the other ranks have written their pieces, and adds the pieces to `reported`.
  /// Throws if a rank failed.
  virtual void await_pieces(ReportedPieces& /*reported*/) {}

  /// Called several times a second while rank 0 reads or waits alone, so that the other ranks keep
  /// waiting for it.
  virtual void keep_waiting() {}

  /// Measures and puts the figures into the step's line. Returns nothing if there is no data to
  /// measure on.
  virtual std::optional<Measured> measure(nlohmann::ordered_json& line,
                                          const MeasureWatch& watch) = 0;
  /// Makes the result file, without "seconds", from the lines of metrics.jsonl.
  virtual nlohmann::ordered_json result(const std::vector<nlohmann::ordered_json>& lines,
                                        CheckpointStore& store, const MeasureWatch& watch) = 0;
  /// The result in words, for the last line that is shown; "": no such line.
  virtual std::string summary(const nlohmann::ordered_json& result) const = 0;
};

}  // namespace penstock
