// The run of a training or a fine-tuning in its directory: claims and locks it, goes on from the
// last checkpoint, logs each step, measures, saves, stops on a signal, and leaves the result. What
// a step, a measurement and the result are is a RunTask's.
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
#include "penstock/train/run_control.h"
#include "penstock/train/run_record.h"
#include "penstock/train/step/objective_watch.h"
#include "penstock/train/step_place.h"

namespace penstock {

/// When what is done.
struct RunPlan {
  std::int64_t steps = 1;
  std::int64_t measure_every = 0;     ///< steps between measurements; the last step has one too
  bool measure_first = false;         ///< also before the first step
  bool measure_last = false;          ///< at the last step even where measure_every is 0
  std::int64_t checkpoint_every = 0;  ///< 0: at the end, and where a measurement is the best
  /// Of a copy from which checkpoints before the end are written while training goes on. 0, or more
  /// than `memory_left`: training waits.
  std::int64_t copy_bytes = 0;
  double memory_left = 0;  ///< bytes that training leaves
  CheckpointPolicy checkpoints;
  bool tensorboard = true;
  double smoothing = 0;  ///< weight of the steps before in the progress line's loss and accuracy
  WatchedSettings settings;
  std::string part = "micro-batch";  ///< what the parts of a step are called
  std::string result_file;
};

/// What a measurement found.
struct Measured {
  double loss = 0;    ///< the best checkpoint is that of the lowest
  std::string shown;  ///< in the progress line: "valid 1.6000"
};

/// Called now and then in a measurement, with the line that would be shown. Throws to end it.
using MeasureWatch = std::function<void(const std::function<std::string()>& text)>;

/// Who writes checkpoints: rank 0 alone, or all ranks, each its piece.
struct Writers {
  int ranks = 1;
  std::string note;  ///< why rank 0 alone, where it had rather not
  /// In place of those of RunPlan, of the rank that has most of a piece and least room for it.
  std::int64_t copy_bytes = 0;
  double memory_left = 0;
};

/// Where all ranks write their pieces.
struct PieceOrder {
  std::filesystem::path directory;
  std::int64_t step = 0;
  Training training = Training::goes_on;
};

class RunTask {
 public:
  virtual ~RunTask() = default;
  virtual RunPlan plan() const = 0;
  /// What the loop says at its beginning.
  virtual std::vector<std::string> notes() const = 0;
  /// config.toml of the run.
  virtual std::string config_text() const = 0;
  /// Throws Error unless the run that the directory holds is this one. Returns the number of steps
  /// that it was begun for where they are fewer, else 0.
  virtual std::int64_t check_same_run(const std::string& directory) const = 0;

  virtual std::int64_t step() const = 0;
  virtual StepOutcome advance(const StepWatch& watch) = 0;
  virtual MachineRecord machine() const = 0;
  /// What a checkpoint holds, but for what the loop adds to `trainer`.
  virtual CheckpointContents contents() = 0;
  /// @param contents  mapped from files (open_checkpoint())
  virtual void restore(const CheckpointInfo& info, const CheckpointContents& contents) = 0;

  /// Asked once, before anything is restored or saved, with the folder of all checkpoints.
  virtual Writers writers(const std::filesystem::path& /*checkpoints*/, FileSystem& /*files*/) {
    return {};
  }
  /// Where all ranks write: has the others write their pieces, and gives contents() with this one's
  /// tensors alone.
  virtual CheckpointContents piece(const PieceOrder& /*order*/) { return contents(); }
  /// The tensors that will be copied for a checkpoint that is written while training goes on.
  virtual CheckpointContents to_copy() { return contents(); }
  /// Waits until the others have written theirs, and tells of what. Throws what a rank failed with.
  virtual void await_pieces(ToldPieces& /*told*/) {}

  /// Puts its figures into the step's line; nothing where there is nothing to measure on.
  virtual std::optional<Measured> measure(nlohmann::ordered_json& line,
                                          const MeasureWatch& watch) = 0;
  /// The result file, but for "seconds", from the lines of metrics.jsonl.
  virtual nlohmann::ordered_json result(const std::vector<nlohmann::ordered_json>& lines,
                                        CheckpointStore& store, const MeasureWatch& watch) = 0;
  /// The last line that is shown, without the directory; "": none.
  virtual std::string summary(const nlohmann::ordered_json& result) const = 0;
};

/// Runs the task in that directory, or continues it there. SIGINT, SIGTERM and SIGHUP save a
/// checkpoint of the last complete step and return `interrupted`, between steps, between the layers
/// of a step (which is given up) and in measurements (which a resumed run makes again).
/// Throws Error for a directory that holds another run, on a full disk (the earlier checkpoint
/// stays), and DivergedError.
RunOutcome run_task(RunTask& task, const std::string& directory, const TrainControl& control);

}  // namespace penstock
