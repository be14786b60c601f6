// A model as another architecture has it: the same function in that architecture's tensors. The
// writers choose names and types in files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "penstock/convert/export/export_target.h"
#include "penstock/models/config_shaped_source.h"

namespace penstock {

/// The tensors of `target.config`, made from those of a source one at a time:
///   routers folded to one matrix (in f64), but for an own class that takes them as they are;
///   rows of q and k in the order of the target's rotation;
///   biases of 0 where the target has biases;  the embeddings as a head of its own;
///   a shared expert that gives 0: FFN weights 0 and, for its gate, numbers that are not, since
///   llama.cpp computes the gate as silu(z)/z.
class PortableSource : public ConfigShapedSource {
 public:
  /// `from` must outlive it. Folds the routers.
  /// @param ones  by MoE layer a direction v [d] of which x · v is about 1, by which a bias becomes
  ///              part of the matrix (convert/export/fit_bias.h); empty: it may not be there
  /// Throws NotPortableError for routers that add a bias which differs between experts, and for a
  /// shared expert's gate of zeros in GGUF.
  PortableSource(const ModelSource& from, const ExportTarget& target,
                 const std::vector<at::Tensor>& ones = {});
  at::Tensor tensor(const std::string& name) const override;
  /// The source's tokenizer.
  std::shared_ptr<const Tokenizer> tokenizer() const override { return from_.tokenizer(); }

 private:
  at::Tensor made_up(const std::string& name) const;
  at::Tensor reordered(const std::string& name, const at::Tensor& tensor) const;

  const ModelSource& from_;
  double gate_of_none_;
  std::map<std::string, at::Tensor> gates_;  // "model.layers.3.mlp.gate.weight" -> [E, d] f32
};

/// The plain matrices [E, d], f32, of a model's MoE layers by the name of their tensor: W, or with
/// `ones` W + (b − mean b)·vᵀ.
/// Throws NotPortableError where a bias differs between experts and `ones` is empty; Error where a
/// tensor is not finite. REQUIRES: the scorer folds (export_gates).
std::map<std::string, at::Tensor> folded_gates(const ModelSource& from,
                                               const std::vector<at::Tensor>& ones = {});

/// Whether some router adds a number to its logits that differs between experts. REQUIRES: as
/// above.
bool routers_add_biases(const ModelSource& from);

}  // namespace penstock
