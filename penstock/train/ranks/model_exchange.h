// Between a model whose parts lie on several ranks and its whole tensors, which files hold. Names
// are those of parameters and buffers, with a prefix for what belongs to them (moments).
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
  /// @param model  this rank's part
  ModelExchange(const LanguageModel& model, const dist::Mesh& mesh);

  /// Whether any rank holds less than all.
  bool divided() const;

  /// How the gradients of such a model are summed, in a tree: by which groups, and what each rank
  /// counts in the global norm.
  GradientSharing sharing() const;

  /// The whole tensors on rank 0, nothing on the others; where none is divided those of this rank.
  /// All ranks call it.
  /// @param parts   what this rank holds, by `prefix` and name; what is not there is not gathered,
  ///                which has to be alike on all ranks that hold it
  TensorMap gather(const TensorMap& parts, const std::string& prefix = "") const;
  /// This rank's parts of what rank 0 gives whole; with one process the same tensors. All ranks
  /// call it. One tensor at a time is sent whole.
  TensorMap scatter(const TensorMap& whole, const std::string& prefix = "") const;

 private:
  dist::Mesh mesh_;
  // Nothing where no model is divided: to find these takes a while.
  std::map<std::string, Slice> whole_, slices_;  // of the model, and of this rank
  std::set<std::string> first_held_;
  std::set<std::string> beside_data_;  // the same among ranks that share no steps with this one
  std::set<std::string> of_experts_, in_shares_;
};

}  // namespace penstock
