// How the processes of a run share the gradients of a step and the optimizer's state, as a value.
// The sums are model_exchange's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "penstock/dist/group.h"

namespace penstock {

/// A property of a parameter, by its name in the module that is trained.
using ParameterPredicate = std::function<bool(const std::string& name)>;

/// How ranks train apart (DiLoCo): each makes so many steps with its own parts alone, and then an
/// outer step brings their weights together (outer_optimizer.h).
struct LocalSteps {
  std::int64_t steps = 1;           ///< 1: they share each step
  double lr = 0.7, momentum = 0.9;  ///< of the outer steps
};

/// The default: one process, which adds gradients in turn.
struct GradientSharing {
  /// In a tree over the parts (gradient_tree.h), whose bits do not depend on the number of ranks;
  /// otherwise in turn, in place, which is for one process.
  bool tree = false;
  /// The state divided over the ranks: 0 none, 1 the moments, 2 gradients too, 3 parameters too.
  int zero = 0;
  /// Whether gradients are exchanged while the backward pass goes on; the bits are the same.
  bool overlap = true;
  /// The ranks that divide a step's parts.
  dist::ProcessGroup data;
  /// Those that hold the same experts: some of `data`, or, where experts are whole (dist::Layout),
  /// of `data` and of those that pass through the same parts. Where they are not `data`
  /// (of_experts) the parts are a multiple of data.size(), and all ranks pass through theirs side
  /// by side: a backward pass leaves an expert the sum over a *round*, what its ranks had at the
  /// same time.
  dist::ProcessGroup replicas;
  int expert_ranks = 1;  ///< that hold a layer's experts between them
  /// Those that hold one model's layers between them, in the order of the layers.
  dist::ProcessGroup stages;
  /// See PartSharing::peers.
  std::vector<dist::ProcessGroup> peers;
  /// All ranks, those that hold other parts of the model included: the global norm is over them.
  dist::ProcessGroup world;
  /// Those that pass through the same parts, each with its heads, neurons and rows. Of parameters
  /// that are `in_shares` each has a share of the gradient; null: of none.
  dist::ProcessGroup tensor;
  ParameterPredicate in_shares;
  /// Whether a parameter's gradients are summed over rounds, by `replicas`; null: none.
  ParameterPredicate of_experts;
  /// Whether this rank counts a parameter in the global norm, where ranks outside of `data` hold it
  /// too; null: all.
  ParameterPredicate counted;

  /// Whether what this rank sees is of the step's report: not where another one sees the same.
  bool counts = true;

  /// With more than one, `data` are all ranks, and zero is 0.
  LocalSteps local;

  /// Whether this rank exchanges gradients with nobody.
  bool alone() const { return data.size() == 1 && replicas.size() == 1; }

  /// Ranks that hold a whole model each and divide a step's parts.
  static GradientSharing among(const dist::ProcessGroup& group, int zero = 0) {
    return {.tree = true, .zero = zero, .data = group, .replicas = group, .world = group};
  }
};

}  // namespace penstock
