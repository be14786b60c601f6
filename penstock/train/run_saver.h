// Saves a run's checkpoints. It decides which ranks write, whether training waits, and whether the
// state is saved already. The run loop says when a checkpoint is due; checkpoint_writer.h writes
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/progress.h"
#include "penstock/train/checkpoints/checkpoint_writer.h"
#include "penstock/train/run_task.h"

namespace penstock {

class RunSaver {
 public:
  /// @param before  called by the writing thread before it writes a checkpoint
  RunSaver(RunTask& task, const RunPlan& plan, CheckpointStore& store, ProgressLine& progress,
           std::function<void()> before)
      : task_(task),
        plan_(plan),
        store_(store),
        progress_(progress),
        writer_(store, std::move(before)) {}

  /// Asks the task which ranks write. Call it before anything is restored or saved.
  void choose_writers(FileSystem& files);
  /// Why rank 0 writes alone, and why training waits for checkpoints.
  std::vector<std::string> notes() const;
  /// Says that the present state came from a checkpoint.
  void restored() { saved_step_ = task_.step(); }
  /// Reserves memory for copies if checkpoints will be written while training goes on.
  void make_room();
  /// What training does while a checkpoint before the end is written.
  Training meanwhile() const;

  /// Saves the state, unless it is saved already. If training waits, returns once it is on the
  /// disk.
  /// @param loss     of the state's measurement, if it had one
  /// @param entries  entries that the run loop adds to the checkpoint's `trainer`
  void save(std::optional<double> loss, const nlohmann::json& entries, Training training,
            Superseded superseded = Superseded::remove);

  /// Throws the failure of a write, if there was one.
  void check_written() { writer_.done(); }
  /// Whether a checkpoint was being written since the last call.
  bool wrote() { return std::exchange(wrote_, !writer_.done()); }
  /// The seconds that training has waited for checkpoints since the last call.
  double waited_seconds() { return std::exchange(seconds_, 0); }

 private:
  bool saves_on_the_way() const;
  void finish_writing();
  DueCheckpoint due_checkpoint(std::optional<double> loss, Training training,
                               Superseded superseded);

  RunTask& task_;
  const RunPlan& plan_;
  CheckpointStore& store_;
  ProgressLine& progress_;
  Writers writers_;
  std::int64_t copy_bytes_ = 0;
  std::string no_copy_;                       // why training waits for checkpoints
  std::shared_ptr<ReportedPieces> reported_;  // pieces of the checkpoint that all ranks are writing
  std::int64_t saved_step_ = 0;
  double seconds_ = 0;
  bool wrote_ = false;
  CheckpointWriter writer_;  // last: its thread uses the other members
};

}  // namespace penstock
