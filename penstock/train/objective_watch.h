// Whether training follows its cross-entropy: a warning where an auxiliary loss outweighs it, and
// where clipping takes away nearly all of the gradient. It decides; run.cpp prints and records.
#pragma once

#include <cstdint>
#include <deque>
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

/// Said once in a run.
struct RunWarning {
  std::string name;     ///< "auxiliary loss" or "clipping"
  std::string finding;  ///< what was seen
  std::string remedy;   ///< what to do, by key
};

/// Sees every step of a run in order, those before a resume too, and says each thing once.
///   auxiliary loss: a part's loss above the cross-entropy, in a single step; once for each part
///   clipping: the norm above 10 · train.clip in 20 of the last 50 steps
class ObjectiveWatch {
 public:
  static constexpr double kClipped = 10;  ///< norm over train.clip: nine tenths are taken away
  static constexpr std::size_t kWindow = 50, kClippedSteps = 20;

  /// @param clip  train.clip; 0: nothing is clipped
  explicit ObjectiveWatch(double clip) : clip_(clip) {}
  /// What is to be said of that step, the run's first or the one after the last.
  std::vector<RunWarning> see(const WatchedStep& step);

 private:
  RunWarning auxiliary_warning(const std::string& part, const WatchedStep& step) const;
  RunWarning clipping_warning(const WatchedStep& step) const;

  double clip_;
  std::set<std::string> said_;  // parts whose loss was too large
  std::deque<bool> clipped_;    // of the last steps
  bool clipping_said_ = false;
};

}  // namespace penstock
