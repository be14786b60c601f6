// The plan of one run of a study: its recipe, its identity and its folder. study_runner.h decides
// which runs are trained.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "penstock/study/config/study_config.h"
#include "penstock/study/study_hooks.h"

namespace penstock::study {

struct PlannedRun {
  ConfigNode recipe;  ///< resolved
  std::string hash, directory;
  /// The hash that earlier versions gave to a run that is upcycled with a text of its own. It
  /// covered the text's path in place of its content. Empty for other runs.
  std::string earlier_hash = {};

  /// Whether a result with this hash is the run's.
  bool has_hash(const std::string& other) const {
    return other == hash || (!other.empty() && other == earlier_hash);
  }

  /// The path of the model that the run begins with.
  std::string start() const { return (std::filesystem::path(directory) / "start").string(); }
};

/// The variant's recipe for that seed, without [model] if it begins with a model.
ConfigNode with_seed(const Variant& variant, std::int64_t seed);

/// The number of steps N after which a variant has spent `target_flops`: N = target ÷
/// flops_per_step(N), rounded, ≥ 1. flops_per_step(N) is a step's mean FLOPs in a run of N steps; a
/// schedule makes it depend on N. N is iterated from `begin` to a fixed point. If the iteration
/// cycles, the closest N of the cycle is returned.
std::int64_t matched_steps(double target_flops, std::int64_t begin,
                           const std::function<double(std::int64_t)>& flops_per_step);

class RunPlans {
 public:
  /// `rows` holds the finished runs.
  RunPlans(const StudyConfig& study, const std::string& output, const StudyHooks& hooks,
           const std::map<RunKey, RunRow>& rows)
      : study_(study), output_(output), hooks_(hooks), rows_(rows) {}

  /// Plans a run. Returns nothing while the run whose compute it matches is missing. If a variant
  /// begins with another variant's model, its recipe has no [model] until that model exists.
  std::optional<PlannedRun> plan(const Variant& variant, std::int64_t seed) const;

  /// runs/ in the output folder, or in the output folder of the study that has these runs.
  std::filesystem::path folder() const;

  /// Makes the model that the run begins with, atomically. Throws Error if another process is
  /// working in the run's folder.
  void begin(const Variant& variant, std::int64_t seed, const PlannedRun& planned) const;

 private:
  /// The model that a variant's training begins with: its path, and the text that stands for it in
  /// hashes.
  struct Beginning {
    std::string model, identity;
  };
  Beginning beginning(const Variant& variant, std::int64_t seed) const;
  std::string directory(const Variant& variant, std::int64_t seed, const std::string& hash) const;
  /// Adds the model that the variant begins with to the run's hashes.
  void add_beginning(const Variant& variant, std::int64_t seed, PlannedRun& planned) const;

  const StudyConfig& study_;
  const std::string& output_;
  const StudyHooks& hooks_;
  const std::map<RunKey, RunRow>& rows_;
};

}  // namespace penstock::study
