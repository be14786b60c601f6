// Presents a model in the tensors of another architecture, which compute the same function. The
// writers choose the tensors' names and types in files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "penstock/convert/export/export_target.h"
#include "penstock/models/config_shaped_source.h"

namespace penstock {

/// The tensors of `target.config`, made from those of a source one at a time:
///   routers folded to one matrix (in f64), unless Penstock's own class keeps them unchanged;
///   rows of q and k in the order of the target's rotation;
///   biases of 0 if only the target has biases;  a copy of the embeddings as an untied head;
///   a shared expert that gives 0: FFN weights of 0, and gate weights that are not 0, since
///   llama.cpp computes the gate as silu(z)/z.
class PortableSource : public ConfigShapedSource {
 public:
  /// `from` must outlive it. Folds the routers.
  /// @param ones  by MoE layer a direction v [d] with x · v ≈ 1, which folds a bias into the matrix
  ///              (convert/export/fit_bias.h); empty: biases are not allowed
  /// Throws NotPortableError for routers whose bias differs between experts (unless `ones` is
  /// given), and in GGUF for a shared expert whose gate is all zeros.
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

/// The routers of a model's MoE layers as plain matrices [E, d], f32, by tensor name: W, or with
/// `ones` W + (b − mean b)·vᵀ. Throws NotPortableError if a bias differs between experts and `ones`
/// is empty; Error if a tensor is not finite. REQUIRES: the scorer folds (export_gates).
std::map<std::string, at::Tensor> folded_gates(const ModelSource& from,
                                               const std::vector<at::Tensor>& ones = {});

/// Whether some router adds a bias that differs between experts. REQUIRES: as folded_gates().
bool routers_add_biases(const ModelSource& from);

}  // namespace penstock
