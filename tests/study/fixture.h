// Run directories with the trainer's files, made from formulas instead of training, and a study
// whose trainer writes such directories.
#pragma once

#include <string>
#include <vector>

#include "penstock/study/study_runner.h"
#include "penstock/study/tables/measured_k.h"
#include "tests/base/temp_directory.h"

namespace penstock::study::testing {

/// A new directory that is removed at the end of its scope.
class TemporaryDirectory {
 public:
  std::string path(const std::string& below = "") const { return directory_.path(below); }

 private:
  penstock::testing::TempDirectory directory_;
};

void write_text(const std::string& path, const std::string& text);
std::string read_text(const std::string& path);

/// The properties of a made-up run.
struct FakeRun {
  std::string method = "dense";  ///< dense, topk or remoe
  std::int64_t seed = 1;
  std::int64_t steps = 300;
  std::int64_t layers = 4, experts = 8;
  double loss_offset = 0;
  bool finished = true;
  bool causal = true;
  bool settles = true;                     ///< remoe: reaches its target
  std::vector<std::string> warnings = {};  ///< findings at step 3
};
/// Writes config.toml, metrics.jsonl and, for a finished run, finished.json.
void write_fake_run(const std::string& directory, const FakeRun& run);

/// Hooks whose trainer writes fake runs. A recipe's model.router.method chooses the method and
/// train.steps the length. A step costs 100 FLOPs per active expert (dense: 100).
struct FakeTrainer {
  std::vector<std::string> trained;  ///< "method seed steps", in order
  std::string corpus = "c0ffee";
  std::string diverges;            ///< "method seed" of the runs that end in a DivergedError
  int interrupt_at = -1;           ///< the training call (from 0) that is interrupted
  int interrupt_finetune_at = -1;  ///< the fine-tuning call (from 0) that is interrupted
  /// "method seed checkpoint k k ...", in order. The figures are 1 + 0.1·(log2 k − 2)² bits per
  /// byte (1.3 without k), 0.2 lower for remoe, plus seed / 100 and, for topk, seed² / 1000.
  std::vector<std::string> measured;
  std::vector<std::string> begun;      ///< "model's folder|upcycling method", in order
  std::vector<std::string> finetuned;  ///< "method seed task", in order
  std::vector<std::string> pages;      ///< directories for which a page was requested
  StudyHooks hooks();

 private:
  std::optional<nlohmann::json> measure(const Measurement& one, const FinishedRun& run,
                                        const Work& work);
};

/// The figures that the fake trainer's hook reports.
KFigures fake_point(const std::string& method, std::int64_t seed, std::int64_t k);

/// Writes dense.toml, topk.toml, remoe.toml and study.toml (variants dense, topk, topk-matched and
/// remoe) into the folder; returns the study's path.
std::string write_fake_study(const std::string& folder);

}  // namespace penstock::study::testing
