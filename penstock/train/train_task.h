// A training as a task of the run loop: the trainer, orders to the other ranks, validations and the
// result. run.h runs a training from its recipe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "penstock/dist/mesh.h"
#include "penstock/train/ranks/orders.h"
#include "penstock/train/recipe.h"
#include "penstock/train/run_control.h"
#include "penstock/train/run_task.h"
#include "penstock/train/trainer.h"

namespace penstock {

class TrainTask : public RunTask {
 public:
  /// Throws Error for a model that this machine cannot hold (unless forced), for an evaluation that
  /// the corpus is too short for, and for a recipe that does not fit the corpus.
  /// @param control  `memory` has the result of memory_of_rank()
  TrainTask(const Recipe& recipe, const TrainControl& control, const dist::Mesh& mesh);

  Trainer& trainer() { return trainer_; }
  Leader& leader() { return leader_; }
  /// Bytes of memory that training leaves, by bytes_of_process().
  double memory_left() const;
  /// Checks that all ranks begin alike, and starts rank 0's orders. Call it after all ranks have
  /// made their tasks.
  void meet_others();

  RunPlan plan() const override;
  std::vector<std::string> notes() const override;
  std::string config_text() const override;
  std::int64_t check_same_run(const std::string& directory) const override;

  std::int64_t step() const override { return trainer_.step(); }
  StepOutcome advance(const StepWatch& watch) override;
  MachineRecord machine() const override;
  CheckpointContents contents() override;
  void restore(const CheckpointInfo& info, const CheckpointContents& contents) override;

  Writers writers(const std::filesystem::path& checkpoints, FileSystem& files) override;
  CheckpointContents piece(const PieceOrder& order) override;
  CheckpointContents to_copy() override;
  void await_pieces(ReportedPieces& reported) override;
  void keep_waiting() override { leader_.keep_waiting(); }

  std::optional<Measured> measure(nlohmann::ordered_json& line, const MeasureWatch& watch) override;
  nlohmann::ordered_json result(const std::vector<nlohmann::ordered_json>& lines,
                                CheckpointStore& store, const MeasureWatch& watch) override;
  std::string summary(const nlohmann::ordered_json& result) const override;

 private:
  /// The recipe, with the corpus's vocabulary.
  const Recipe& recipe() const { return trainer_.recipe(); }
  bool has_split(Split split) const { return trainer_.corpus().count(split).tokens > 1; }
  CheckpointContents contents_with(TensorMap model, TensorMap optimizer) const;
  void check_evaluations() const;
  nlohmann::ordered_json final_evaluation(Split split, const MeasureWatch& watch);
  std::function<void(double, const LossTotals&)> watching(Split split, const MeasureWatch& watch);

  int threads_, processes_here_;
  double peak_flops_;
  double available_;  // bytes, before the model is made
  Trainer trainer_;
  // of each checkpoint; read early, since train.init_from may disappear
  std::map<std::string, std::string> files_;
  Leader leader_;
  dist::ProcessGroup group_;
  bool same_files_ = false;  // all ranks see the run's files
};

}  // namespace penstock
