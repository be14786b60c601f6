// The outer optimizer of ranks that train apart (DiLoCo, Douillard et al. 2023, arXiv:2311.08105).
// It combines the ranks' weights. Each rank's own SharedOptimizer makes the steps in between.
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

/// An outer step, with the shared weights s, the weights w_r of rank r of R, and the momentum b,
/// which begins at 0:
///   g = s − Σ_r w_r / R;  b ← μ·b + g;  s ← s − lr·(g + μ·b);  w_r ← s
/// This is SGD with Nesterov momentum; −g is the mean change of the ranks' weights. The ranks'
/// weights are added in a tree over the ranks, so the same number of ranks gives the same bits. s
/// is computed as
///   Σ_r w_r / R + (1 − lr)·g − lr·μ·b
/// so that lr = 1 without momentum gives exactly the mean. Each rank keeps s and b of its spans of
/// each unit (parameter_units.h) and updates these spans for all ranks. Every rank makes the same
/// calls.
class OuterOptimizer {
 public:
  /// The shared weights are the present weights. REQUIRES: these are equal on all ranks.
  OuterOptimizer(std::vector<Updated> parameters, dist::ProcessGroup group,
                 const LocalSteps& local);

  /// Whether the ranks' weights differ after `step` steps.
  bool apart(std::int64_t step) const { return step % local_.steps != 0; }
  /// The common outcome of all ranks: the mean of their norms, and the failure of the first rank
  /// that cannot update.
  UpdateOutcome agree(const UpdateOutcome& mine) const;
  /// Makes an outer step. All ranks then have the shared weights.
  void step();

  /// The whole shared weights, by name.
  std::map<std::string, at::Tensor> shared_weights() { return whole(shared_); }
  /// The state that resuming needs in addition to the shared weights; on the first rank only. It is
  /// the momentum as outer.momentum.NAME, each rank's moments as outer.rank.R.m.NAME and
  /// outer.rank.R.v.NAME and, if the ranks are apart after `step`, each rank's weights as
  /// outer.rank.R.w.NAME.
  /// @param moments  this rank's moments, "m.NAME" and "v.NAME"
  std::map<std::string, at::Tensor> state(const std::map<std::string, at::Tensor>& moments,
                                          std::int64_t step);
  /// Restores the first rank's `state`. If it was saved with another number of ranks, each rank
  /// gets the mean of the saved moments and weights. Throws Error, on all ranks, if a tensor is
  /// missing or has the wrong shape. REQUIRES: the parameters have the shared weights.
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
  /// Copies every rank's spans of the unit into `whole`, on every rank.
  void gather(const ParameterUnit& unit, const UnitTensors& spans, const UnitTensors& whole);
  /// Whole tensors by parameter name.  @param spans  this rank's spans of all units
  Named whole(const UnitTensors& spans);
  /// The names "m.NAME", "v.NAME" and, if the ranks are apart, "w.NAME" of each rank's own tensors,
  /// with the parameter's weight.
  std::vector<std::pair<std::string, at::Tensor>> own_state(std::int64_t step) const;
  /// The tensors that each rank gets from a state, by rank.
  std::vector<Named> tensors_by_rank(const Named& state, std::int64_t step) const;

  LocalSteps local_;
  dist::ProcessGroup group_;
  std::vector<Updated> parameters_;
  std::vector<ParameterUnit> units_;
  UnitExchange exchange_;
  UnitTensors shared_, momentum_;  // by this rank's spans of the units
};

}  // namespace penstock
