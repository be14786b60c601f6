// Carries a study out: which runs are missing, runs them, gathers rows. Training itself is behind
// StudyHooks, so that this file knows no model.
#pragma once

#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "penstock/study/results.h"
#include "penstock/study/study_config.h"

namespace penstock::study {

/// What a study needs from the rest of the library.
struct StudyHooks {
  /// Completes and checks a recipe: every field, defaults included.
  std::function<ConfigNode(const ConfigNode& recipe)> resolve;
  /// Throws Error where memory is too small for that training; may be null.
  std::function<void(const ConfigNode& recipe)> check_memory;
  /// Hash of the corpus the recipe names; "" where that cannot be told.
  std::function<std::string(const ConfigNode& resolved)> corpus_hash;
  /// Useful training FLOPs of one step at the nominal number of active experts.
  std::function<double(const ConfigNode& resolved)> flops_per_step;
  /// Bits per byte of an n-gram model counted on the recipe's corpus, of the split that measure_k
  /// measures; 0 where the corpus is not there.
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
  /// Those of `eval_k` that the recipe's model takes; {0} where it has no k: one point for all.
  std::function<std::vector<std::int64_t>(const ConfigNode& resolved,
                                          std::span<const std::int64_t> eval_k)>
      wanted_k;
  /// Measures that run's "final" or "best" checkpoint at those k on the test split, or on the
  /// validation split where there is no other, as the recipe evaluates.
  std::function<MeasuredK(const ConfigNode& resolved, const std::string& run_directory,
                          std::span<const std::int64_t> values, const std::string& checkpoint,
                          bool folded)>
      measure_k;
  /// Entropy and samples of that checkpoint's routers.
  std::function<RouterReport(const ConfigNode& resolved, const std::string& run_directory,
                             const std::string& checkpoint)>
      measure_routers;
  /// Throws Error where the data of a fine-tuning are not there.
  std::function<void(const FinetuneTask& task)> check_data;
  /// Whether that recipe's routers fold.
  std::function<bool(const ConfigNode& resolved)> folds;
  /// Fine-tunes that checkpoint in a directory, resuming what is there; false when interrupted.
  std::function<bool(const ConfigNode& resolved, const std::string& run_directory,
                     const std::string& checkpoint, const FinetuneTask& task, std::int64_t seed,
                     const std::string& finetune_directory)>
      finetune;
};
/// The hooks that train for real; `progress` may be null. With `force` they also try what memory
/// seems too small for.
StudyHooks training_hooks(std::FILE* progress, bool force = false);

struct StudyOptions {
  std::string output;             ///< folder for runs/, results.json, results.txt and report.html
  std::string kept_rows;          ///< file of finished rows to use and to extend; "" for none
  std::string command;            ///< shown as the way to reproduce
  bool report_only = false;       ///< train nothing; finished runs are still measured by k
  bool retry_diverged = false;    ///< train again, from their last good step, runs that diverged
  std::FILE* progress = nullptr;  ///< one line per run; null for silence
};

struct StudyOutcome {
  StudyResults results;
  int left_out = 0;  ///< runs that need one that diverged
  bool interrupted = false;
};

/// The steps at which a variant has spent `target_flops`: target ÷ per step, to the nearest, ≥ 1.
std::int64_t matched_steps(double target_flops, double flops_per_step);

/// Trains every (variant, seed) that neither the output folder nor the kept rows hold finished
/// under the same config hash, seed by seed. Unfinished runs resume. Variants with match_compute
/// come last within a seed; their train.steps is set so that steps · flops_per_step equals the
/// useful FLOPs that the named variant's run with that seed really spent. results.json, the report
/// and the kept rows are brought up to date after every run. All recipes, and whether they fit into
/// memory, are checked before anything is trained. A run that diverges is recorded as such
/// (divergence.h, and among the kept rows) and the others go on, but for those that need it; while
/// its config stays it is not trained again unless the options say so. Finished runs whose folder
/// is there are measured at the study's eval_k, where their rows lack it, and what the study
/// reports of their routers; then they are fine-tuned (in finetune/ of the run's folder). No run's
/// identity depends on any of that. A study that only shows settings or closed forms trains
/// nothing.
StudyOutcome run_study(const StudyConfig& study, const StudyOptions& options,
                       const StudyHooks& hooks);

}  // namespace penstock::study
