// Describes how the processes of a run share the gradients of a step and the optimizer's state.
// It sums nothing; shared_optimizer.h does.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "penstock/dist/group.h"

namespace penstock {

/// A property of a parameter, by its name in the module that is trained.
using ParameterPredicate = std::function<bool(const std::string& name)>;

/// How ranks train apart (DiLoCo). Each rank makes `steps` steps with its own parts only. Then an
/// outer step brings the ranks' weights together (outer_optimizer.h).
struct LocalSteps {
  std::int64_t steps = 1;           ///< 1: the ranks share each step
  double lr = 0.7, momentum = 0.9;  ///< of the outer steps
};

/// The default is one process that adds gradients in turn.
struct GradientSharing {
  /// true: gradients are summed in a tree over the parts (gradient_tree.h), whose bits do not
  /// depend on the number of ranks. false: in turn, in place; for one process only.
  bool tree = false;
  /// The state divided over the ranks: 0 nothing, 1 moments, 2 also gradients, 3 also parameters.
  int zero = 0;
  /// Whether gradients are exchanged during the backward pass. The bits are the same either way.
  bool overlap = true;
  /// The ranks that divide a step's parts.
  dist::ProcessGroup data;
  /// The ranks that hold the same experts. They are ranks of `data`; with
  /// dist::Layout::whole_experts also ranks of `tensor`. If they are not `data` (then of_experts is
  /// set), the number of parts is a multiple of data.size(), and all ranks pass through their parts
  /// at the same time. A backward pass then gives an expert the sum of the gradients of a *round*:
  /// of all parts that the ranks which divide the layer's experts compute at the same time.
  dist::ProcessGroup replicas;
  int expert_ranks = 1;  ///< the number of ranks that a layer's experts are divided between
  /// The ranks of a pipeline, in the order of the model's layers.
  dist::ProcessGroup stages;
  /// See PartSharing::peers.
  std::vector<dist::ProcessGroup> peers;
  /// All ranks, including ranks that hold other parts of the model. The global norm is over them.
  dist::ProcessGroup world;
  /// The ranks that compute the same parts together, each with its heads, neurons and rows.
  dist::ProcessGroup tensor;
  /// Whether each rank of `tensor` has only a partial sum of a parameter's gradient; null: for
  /// none.
  ParameterPredicate in_shares;
  /// Whether a parameter's gradients are summed over rounds, by `replicas`; null: none.
  ParameterPredicate of_experts;
  /// Whether this rank counts a parameter in the global norm. Ranks outside `data` may hold the
  /// parameter too, and only one of them counts it. null: it counts all.
  ParameterPredicate counted;

  /// Whether this rank's records count in the step's report. False if another rank has equal
  /// records.
  bool counts = true;

  /// If local.steps > 1, `data` contains all ranks, and zero is 0.
  LocalSteps local;

  /// Whether this rank exchanges gradients with no other rank.
  bool alone() const { return data.size() == 1 && replicas.size() == 1; }

  /// For ranks that each hold a whole model and divide a step's parts.
  static GradientSharing among(const dist::ProcessGroup& group, int zero = 0) {
    return {.tree = true, .zero = zero, .data = group, .replicas = group, .world = group};
  }
};

}  // namespace penstock
