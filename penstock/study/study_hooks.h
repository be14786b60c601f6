// What a study needs from the rest of the library: training, models, pages. The runner knows no
// model, so that tests can put made-up runs in their place.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/config_node.h"
#include "penstock/dist/group.h"
#include "penstock/study/measurement.h"
#include "penstock/study/runs/results.h"

namespace penstock::study {

using RunKey = std::pair<std::string, std::int64_t>;  ///< variant and seed

/// A run that others may be trained beside.
struct RunToTrain {
  RunKey key;
  int processes = 1;  ///< that train it together
};

struct StudyHooks {
  /// Completes and checks a recipe: every field, defaults included.
  std::function<ConfigNode(const ConfigNode& recipe)> resolve;
  /// The model of a resolved recipe.
  std::function<ModelConfig(const ConfigNode& resolved)> model;
  /// The processes that train such a recipe together; null: one.
  std::function<int(const ConfigNode& recipe)> processes;
  /// Throws Error where processes are too few or memory is too small for that training; may be
  /// null.
  std::function<void(const ConfigNode& recipe)> check_fits;
  /// Hash of the corpus the recipe names; "" where that cannot be told.
  std::function<std::string(const ConfigNode& resolved)> corpus_hash;
  /// Useful training FLOPs of one step, the mean over the recipe's `train.steps`, at the number of
  /// active experts that is nominal or that a schedule gives each.
  std::function<double(const ConfigNode& resolved)> flops_per_step;
  /// Bits per byte of an n-gram model counted on the recipe's corpus, of the measured split
  /// (run_folder.h); 0 where the corpus is not there.
  std::function<double(const ConfigNode& resolved, int order)> ngram_baseline;
  /// Puts the model that training begins with into that directory: a copy of the one at `model`, or
  /// with `upcycle` what penstock/convert makes of it, with the recipe's data and seed.
  std::function<void(const std::string& model, const ConfigNode& upcycle,
                     const ConfigNode& resolved, const std::string& directory)>
      begin;
  /// Content of a model in that place.
  std::function<std::string(const std::string& model)> model_hash;
  /// Trains in that directory, resuming what is there; false when it was interrupted. Throws
  /// DivergedError (train/run_control.h) where the loss is not finite.
  std::function<bool(const ConfigNode& resolved, const std::string& run_directory)> train;
  /// Trains those runs side by side, each where the study is carried out for it alone, and returns
  /// once all have ended; false when they were interrupted. Null: trained one by one.
  std::function<bool(const std::vector<RunToTrain>& runs)> train_side_by_side;
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

/// Who trains a run.
struct RunRanks {
  dist::ProcessGroup group = {};  ///< this process leads it; the others train_as_ordered()
  int most = 1;                   ///< processes that a run may take
  int here = 1;                   ///< processes that share this machine
  /// Bytes of memory for each of them, from before any took some; 0: of what is free.
  double memory = 0;
};

/// The hooks that train and measure for real, without pages; `progress` may be null. With `force`
/// they also try what memory seems too small for. The recipe's [parallel] names a run's processes.
StudyHooks training_hooks(std::FILE* progress, bool force = false, const RunRanks& ranks = {});

/// Of a group's other ranks: trains what its first rank trains, until it has dismiss()ed them.
void train_as_ordered(const RunRanks& ranks, bool force);
/// Of the group's first rank.
void dismiss(const dist::ProcessGroup& group);

}  // namespace penstock::study
