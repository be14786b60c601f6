// What brings ranks together that train apart (DiLoCo, Douillard et al. 2023, arXiv:2311.08105): an
// outer optimizer over their weights. The steps in between are SharedOptimizer's, of each rank by
// itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "penstock/dist/group.h"
#include "penstock/optim/adamw.h"
#include "penstock/train/ranks/unit_exchange.h"

namespace penstock {

/// The prefix of all names in OuterOptimizer::state().
inline constexpr const char* kOuterState = "outer.";

/// With the shared weights s, those of rank r of R now w_r, and a momentum b that begins at 0:
///   g = s − Σ_r w_r / R;  b ← μ·b + g;  s ← s − lr·(g + μ·b);  w_r ← s
/// which is SGD with Nesterov momentum along the mean way of the ranks. The ranks' weights are
/// added in a tree over the ranks, so the same ranks come to the same bits; and s is computed as
///   Σ_r w_r / R + (1 − lr)·g − lr·μ·b
/// so that lr = 1 without momentum leaves the mean as it is. A rank keeps s and b of its spans of
/// each unit (parameter_units.h) and updates these for all. Every rank makes the same calls.
class OuterOptimizer {
 public:
  /// The weights that the parameters have now are shared ones. REQUIRES: equal on all ranks.
  OuterOptimizer(std::vector<Updated> parameters, dist::ProcessGroup group,
                 const LocalSteps& local);

  /// Whether the ranks' weights differ after that many steps.
  bool apart(std::int64_t step) const { return step % local_.steps != 0; }
  /// What is said of the step of all ranks: the mean of their norms, and the failure of the first
  /// that cannot update.
  UpdateOutcome agree(const UpdateOutcome& mine) const;
  /// The outer step, after which the weights are shared ones.
  void step();

  /// By name, whole.
  std::map<std::string, at::Tensor> shared_weights() { return whole(shared_); }
  /// What resuming needs beside the shared weights, on the first rank: the momentum as
  /// outer.momentum.NAME, the moments of each rank as outer.rank.R.m.NAME and .v.NAME, and where
  /// the ranks are apart after that step also their weights, outer.rank.R.w.NAME.
  /// @param moments  of this rank, "m.NAME" and "v.NAME"
  std::map<std::string, at::Tensor> state(const std::map<std::string, at::Tensor>& moments,
                                          std::int64_t step);
  /// From that of the first rank, once the parameters have the shared weights. Where it is of
  /// another number of ranks each gets the mean of their moments and weights. Throws Error, on all
  /// ranks, where something is missing or misshaped.
  /// @return this rank's moments
  std::map<std::string, at::Tensor> load(const std::map<std::string, at::Tensor>& state,
                                         std::int64_t step);

 private:
  using Named = std::map<std::string, at::Tensor>;

  const std::vector<Span>& own_spans(const ParameterUnit& unit) const {
    return unit.spans[static_cast<std::size_t>(group_.rank())];
  }
  UnitTensors weights_of(const ParameterUnit& unit) const;
  /// This rank's spans of the sum of all ranks' weights.
  UnitTensors sum_of_ranks(const ParameterUnit& unit);
  void update(std::size_t span, const at::Tensor& mean);
  /// Puts every rank's spans of the unit in place.
  void gather(const ParameterUnit& unit, const UnitTensors& spans, const UnitTensors& whole);
  /// @param spans  of all units
  Named whole(const UnitTensors& spans);
  /// Names of what each rank has of its own.
  std::vector<std::pair<std::string, at::Tensor>> own_state(std::int64_t step) const;
  /// By rank, what it gets of a state.
  std::vector<Named> dealt(const Named& state, std::int64_t step) const;

  LocalSteps local_;
  dist::ProcessGroup group_;
  std::vector<Updated> parameters_;
  std::vector<ParameterUnit> units_;
  UnitExchange exchange_;
  UnitTensors shared_, momentum_;  // by this rank's spans of the units
};

}  // namespace penstock
