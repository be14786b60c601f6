// Watches whether the cross-entropy dominates training. It warns where an auxiliary loss is larger
// than the cross-entropy, where clipping removes nearly all of the gradient, and where a steered
// sparsity leaves too few experts active. It only decides; run_loop.cpp prints and records.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace penstock {

/// The values of a step that the watch reads.
struct WatchedStep {
  double loss = 0;                                 ///< cross-entropy
  std::map<std::string, double> auxiliary_losses;  ///< by the router part that adds the loss
  double gradient_norm = 0;                        ///< before clipping
  double active_experts = 0;                       ///< per token, mean over the layers
};

/// The text of remedy_for_loss(). If it asks for smaller logits, also the commands that start with
/// them.
std::string remedy_by_command(const std::string& part);

/// The settings that the watch compares with, and their names in a recipe or in fine-tuning.
struct WatchedSettings {
  double clip = 0;              ///< largest norm of the gradient; 0: nothing is clipped
  double steered_experts = 0;   ///< active experts per token that a balancer steers to; 0: none
  std::string keys = "train.";  ///< prefix of clip, lr and warmup_steps in messages
  /// Returns what to do if the loss of a router part is too large; null: remedy_by_command().
  std::function<std::string(const std::string& part)> remedy = {};
};

/// A warning. A run gives each warning once.
struct RunWarning {
  std::string name;     ///< "auxiliary loss", "clipping" or "idle experts"
  std::string finding;  ///< what was found
  std::string remedy;   ///< what to do, with the names of settings
};

/// Sees every step of a run in order, including the steps before a resume. Gives each warning once.
///   auxiliary loss: a router part's loss is above the cross-entropy in one step; once for each
///     part
///   clipping: the norm is above 10 · clip in 20 of the last 50 steps
///   idle experts: fewer than half of the active experts that a balancer steers to, for 50 steps in
///     a row
class ObjectiveWatch {
 public:
  static constexpr double kClipped = 10;  ///< norm / clip; clipping removes nine tenths
  static constexpr std::size_t kWindow = 50, kClippedSteps = 20;
  /// Fraction of the active experts that a balancer steers to. In kWindow steps below the target
  /// ReMoE's λ falls to 1/9000, so the penalty no longer keeps the experts off.
  static constexpr double kTooFew = 0.5;

  explicit ObjectiveWatch(WatchedSettings settings);
  /// The warnings of a step. The steps come in order from the run's first.
  std::vector<RunWarning> see(const WatchedStep& step);

 private:
  RunWarning auxiliary_warning(const std::string& part, const WatchedStep& step) const;
  RunWarning clipping_warning(const WatchedStep& step) const;
  RunWarning idle_warning(const WatchedStep& step) const;
  bool clipping(const WatchedStep& step);
  bool idle(const WatchedStep& step);

  WatchedSettings settings_;
  std::set<std::string> said_;  // router parts that a warning has named
  std::deque<bool> clipped_;    // for each of the last kWindow steps
  bool clipping_said_ = false;
  std::size_t idle_steps_ = 0;  // consecutive steps with too few experts
  bool idle_said_ = false;
};

}  // namespace penstock
