// Converts between a model that is divided over several ranks and its whole tensors, as files hold
// them. Tensors have the names of parameters and buffers, and their moments a prefix.
#pragma once

#include <map>
#include <set>
#include <string>

#include "penstock/dist/mesh.h"
#include "penstock/models/formats/torch_safetensors.h"
#include "penstock/models/language_model.h"
#include "penstock/ops/slice.h"
#include "penstock/train/ranks/gradient_sharing.h"

namespace penstock {

class ModelExchange {
 public:
  /// @param model  this rank's part of the model
  ModelExchange(const LanguageModel& model, const dist::Mesh& mesh);

  /// Whether any rank holds less than the whole model.
  bool divided() const;

  /// The slice of a parameter or buffer that this rank holds.
  /// @param held  the tensor on this rank
  Slice slice_of(const std::string& name, const at::Tensor& held) const;
  /// Whether this rank is the first of the ranks that may share one copy of the tensor in memory
  /// (shared_weights.h).
  bool first_of_copies(const std::string& name) const;

  /// How the gradients of this model are summed in a tree: the groups, and the parameters that this
  /// rank counts in the global norm.
  GradientSharing sharing() const;

  /// The whole tensors on rank 0, nothing on the other ranks. If no tensor is divided, every rank
  /// gets its own tensors. All ranks call it.
  /// @param parts   this rank's tensors, by `prefix` and name. A tensor that is missing is not
  ///                gathered; all ranks that hold its parts have to leave it out.
  TensorMap gather(const TensorMap& parts, const std::string& prefix = "") const;
  /// This rank's parts of rank 0's whole tensors. With one process it returns the whole tensors.
  /// All ranks call it. Whole tensors are sent one at a time.
  TensorMap scatter(const TensorMap& whole, const std::string& prefix = "") const;

 private:
  dist::Mesh mesh_;
  // The following are empty if the model is not divided, because it takes time to compute them.
  std::map<std::string, Slice> whole_, slices_;  // of the model, and of this rank
  std::set<std::string> first_held_;
  std::set<std::string> beside_data_;  // see first_beside_data()
  std::set<std::string> of_experts_, in_shares_;
};

}  // namespace penstock
