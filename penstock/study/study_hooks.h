// The functions that a study needs from the rest of the library: training, models, pages. The
// runner calls nothing else, so tests can substitute made-up runs.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/base/config_node.h"
#include "penstock/dist/group.h"
#include "penstock/study/measurement.h"
#include "penstock/study/runs/results.h"
#include "penstock/study/runs/run_queue.h"

namespace penstock::study {

/// A study's part while its runs are trained side by side.
struct SideBySide {
  /// Called before a run begins, when the runs that it waits for have ended. False: leave it out.
  std::function<bool(const RunKey& run)> may_begin;
  /// Called when runs have ended.
  std::function<void(std::span<const RunKey> runs)> ended;
};

struct StudyHooks {
  /// Completes and checks a recipe: every field, defaults included.
  std::function<ConfigNode(const ConfigNode& recipe)> resolve;
  /// The model of a resolved recipe.
  std::function<ModelConfig(const ConfigNode& resolved)> model;
  /// The number of processes that train a recipe together; null: one.
  std::function<int(const ConfigNode& recipe)> processes;
  /// Throws Error if there are too few processes or too little memory to train the recipe; may be
  /// null.
  std::function<void(const ConfigNode& recipe)> check_fits;
  /// Hash of the corpus that the recipe names; "" if it cannot be computed.
  std::function<std::string(const ConfigNode& resolved)> corpus_hash;
  /// Useful training FLOPs of one step, the mean over the recipe's `train.steps`, with the nominal
  /// number of active experts, or the number that a schedule gives each step.
  std::function<double(const ConfigNode& resolved)> flops_per_step;
  /// Bits per byte of an n-gram model counted on the recipe's corpus, over the targets that a run's
  /// final evaluation of the measured split scores (run_folder.h, train/evaluation_settings.h); 0
  /// if the corpus is missing.
  std::function<double(const ConfigNode& resolved, int order)> ngram_baseline;
  /// Puts the model that training begins with into `directory`: a copy of the model at `model`, or
  /// with `upcycle` the model that penstock/convert makes of it with the recipe's data and seed.
  std::function<void(const std::string& model, const ConfigNode& upcycle,
                     const ConfigNode& resolved, const std::string& directory)>
      begin;
  /// Hash of the content of the model at that path.
  std::function<std::string(const std::string& model)> model_hash;
  /// Hash of the content of the calibration text at that path. Throws Error if it cannot be read.
  std::function<std::string(const std::string& text)> text_hash;
  /// Trains in `run_directory` and resumes a run that is there. Returns false if it was
  /// interrupted. Throws DivergedError (train/run_control.h) if the loss is not finite.
  std::function<bool(const ConfigNode& resolved, const std::string& run_directory)> train;
  /// Trains these runs side by side, each as a study limited to that run, and returns once all have
  /// ended. Returns false if they were interrupted. Null: runs are trained one by one.
  std::function<bool(const std::vector<RunToTrain>& runs, const SideBySide& study)>
      train_side_by_side;
  /// Measurement::check and Measurement::measure.
  std::function<void(const Measurement& one)> check;
  std::function<std::optional<nlohmann::json>(const Measurement& one, const FinishedRun& run,
                                              const Work& work)>
      measure;
  /// Writes the pages of the study into its output folder; may be null.
  std::function<void(const StudyResults& results, const std::string& output)> write_pages;
  /// Writes the page of a run's or a fine-tuning's own directory; may be null.
  std::function<void(const std::string& run_directory)> write_run_page;
};

/// The processes that train a run.
struct RunRanks {
  dist::ProcessGroup group = {};  ///< this process leads it; the others call train_as_ordered()
  int most = 1;                   ///< the most processes that a run may take
  int here = 1;                   ///< processes that share this machine
  /// Bytes of memory for each process, measured before any process allocated; 0: from the memory
  /// that is free now.
  double memory = 0;
};

/// The hooks that really train and measure, without pages. `progress` may be null. With `force`
/// they also try trainings for which memory seems too small. The recipe's [parallel] sets a run's
/// number of processes.
StudyHooks training_hooks(std::FILE* progress, bool force = false, const RunRanks& ranks = {});

/// Called on a group's other ranks: trains the runs that the first rank trains, until that rank
/// calls dismiss().
void train_as_ordered(const RunRanks& ranks, bool force);
/// Called on the group's first rank: ends train_as_ordered() on the others.
void dismiss(const dist::ProcessGroup& group);

}  // namespace penstock::study
