// Whether training follows its cross-entropy: a warning where an auxiliary loss outweighs it, where
// clipping takes away nearly all of the gradient, and where a steered sparsity leaves hardly an
// expert on. It decides; run_loop.cpp prints and records.
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
  double active_experts = 0;                       ///< per token, mean over the layers
};

/// remedy_for_loss() and, where it asks for smaller logits, the commands that start from such.
std::string remedy_by_command(const std::string& part);

/// How the settings are called that help, in a recipe or in fine-tuning.
struct WatchedSettings {
  double clip = 0;              ///< largest norm of the gradient; 0: nothing is clipped
  double steered_experts = 0;   ///< active experts per token that a balancer steers to; 0: none
  std::string keys = "train.";  ///< what stands before clip, lr and warmup_steps
  /// What to do where the loss that a part adds is too large; null: remedy_by_command().
  std::function<std::string(const std::string& part)> remedy = {};
};

/// Said once in a run.
struct RunWarning {
  std::string name;     ///< "auxiliary loss", "clipping" or "idle experts"
  std::string finding;  ///< what was seen
  std::string remedy;   ///< what to do, by key
};

/// Sees every step of a run in order, those before a resume too, and says each thing once.
///   auxiliary loss: a part's loss above the cross-entropy, in a single step; once for each part
///   clipping: the norm above 10 · clip in 20 of the last 50 steps
///   idle experts: fewer than half of the active experts that a balancer steers to, 50 steps in a
///     row
class ObjectiveWatch {
 public:
  static constexpr double kClipped = 10;  ///< norm over clip: nine tenths are taken away
  static constexpr std::size_t kWindow = 50, kClippedSteps = 20;
  /// Of the wanted active experts. ReMoE's λ falls to a 9000th in kWindow steps, so no penalty
  /// holds the experts off any more.
  static constexpr double kTooFew = 0.5;

  explicit ObjectiveWatch(WatchedSettings settings);
  /// What is to be said of that step, the run's first or the one after the last.
  std::vector<RunWarning> see(const WatchedStep& step);

 private:
  RunWarning auxiliary_warning(const std::string& part, const WatchedStep& step) const;
  RunWarning clipping_warning(const WatchedStep& step) const;
  RunWarning idle_warning(const WatchedStep& step) const;
  bool clipping(const WatchedStep& step);
  bool idle(const WatchedStep& step);

  WatchedSettings settings_;
  std::set<std::string> said_;  // parts whose loss was too large
  std::deque<bool> clipped_;    // of the last steps
  bool clipping_said_ = false;
  std::size_t idle_steps_ = 0;  // with too few experts, in a row
  bool idle_said_ = false;
};

}  // namespace penstock
