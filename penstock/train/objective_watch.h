// Whether training follows its cross-entropy: a warning where an auxiliary loss outweighs it, and
// where clipping takes away nearly all of the gradient. It decides; run_loop.cpp prints and
// records.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace penstock {

/// What a step was about.
struct WatchedStep {
  double loss = 0;                                 ///< cross-entropy
  std::map<std::string, double> auxiliary_losses;  ///< by the part that adds it
  double gradient_norm = 0;                        ///< before clipping
};

/// How the settings are called that help, in a recipe or in fine-tuning.
struct WatchedSettings {
  double clip = 0;              ///< largest norm of the gradient; 0: nothing is clipped
  std::string keys = "train.";  ///< what stands before clip, lr and warmup_steps
  /// What to do where the loss that a part adds is too large; null: remedy_for_loss().
  std::function<std::string(const std::string& part)> remedy = {};
};

/// Said once in a run.
struct RunWarning {
  std::string name;     ///< "auxiliary loss" or "clipping"
  std::string finding;  ///< what was seen
  std::string remedy;   ///< what to do, by key
};

/// Sees every step of a run in order, those before a resume too, and says each thing once.
///   auxiliary loss: a part's loss above the cross-entropy, in a single step; once for each part
///   clipping: the norm above 10 · clip in 20 of the last 50 steps
class ObjectiveWatch {
 public:
  static constexpr double kClipped = 10;  ///< norm over clip: nine tenths are taken away
  static constexpr std::size_t kWindow = 50, kClippedSteps = 20;

  explicit ObjectiveWatch(WatchedSettings settings);
  /// What is to be said of that step, the run's first or the one after the last.
  std::vector<RunWarning> see(const WatchedStep& step);

 private:
  RunWarning auxiliary_warning(const std::string& part, const WatchedStep& step) const;
  RunWarning clipping_warning(const WatchedStep& step) const;

  WatchedSettings settings_;
  std::set<std::string> said_;  // parts whose loss was too large
  std::deque<bool> clipped_;    // of the last steps
  bool clipping_said_ = false;
};

}  // namespace penstock
