// What a run of a study is: its recipe, its identity and its folder. Which runs there are to do is
// study_runner.h's matter.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "penstock/study/config/study_config.h"
#include "penstock/study/study_hooks.h"

namespace penstock::study {

struct PlannedRun {
  ConfigNode recipe;  ///< resolved
  std::string hash, directory;

  /// Where the model lies that the run begins with.
  std::string start() const { return (std::filesystem::path(directory) / "start").string(); }
};

/// The variant's recipe for that seed, without [model] where it begins with a model.
ConfigNode with_seed(const Variant& variant, std::int64_t seed);

/// The steps N at which a variant has spent `target_flops`: N = target ÷ flops_per_step(N), to the
/// nearest, ≥ 1, where flops_per_step(N) is the mean of a step in a run of N steps, which a
/// schedule makes depend on N. N is iterated from `begin` until it stays; where it would go round,
/// the closest of those met.
std::int64_t matched_steps(double target_flops, std::int64_t begin,
                           const std::function<double(std::int64_t)>& flops_per_step);

class RunPlans {
 public:
  /// `rows` has the finished runs.
  RunPlans(const StudyConfig& study, const std::string& output, const StudyHooks& hooks,
           const std::map<RunKey, RunRow>& rows)
      : study_(study), output_(output), hooks_(hooks), rows_(rows) {}

  /// Nothing while the run whose compute it matches is missing. The model of a variant that begins
  /// with another's is known once that is there; until then the recipe has none.
  std::optional<PlannedRun> plan(const Variant& variant, std::int64_t seed) const;

  /// runs/ of the output folder, or of the study beside it that has these runs.
  std::filesystem::path folder() const;

  /// Makes the model that the run begins with, complete or not at all.
  void begin(const Variant& variant, std::int64_t seed, const PlannedRun& planned) const;

 private:
  /// What a variant's training begins with: where the model lies and what stands for it in hashes.
  struct Beginning {
    std::string model, identity;
  };
  Beginning beginning(const Variant& variant, std::int64_t seed) const;

  const StudyConfig& study_;
  const std::string& output_;
  const StudyHooks& hooks_;
  const std::map<RunKey, RunRow>& rows_;
};

}  // namespace penstock::study
