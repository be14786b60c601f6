// Exchanges tensors so that each rank has the tensors of a checkpoint that it writes. Afterwards
// only a tensor's owner (checkpoint_shares.h) has the whole tensor.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "penstock/dist/group.h"
#include "penstock/models/formats/rank_slices.h"
#include "penstock/models/formats/torch_safetensors.h"
#include "penstock/optim/optimizer_config.h"
#include "penstock/train/checkpoints/checkpoint_shares.h"
#include "penstock/train/ranks/shared_optimizer.h"

namespace penstock {

/// A rank's own part of a checkpoint.
struct CheckpointShare {
  TensorMap model;      ///< under their names in files
  TensorMap optimizer;  ///< moments, m.NAME and v.NAME, and all else that resuming needs
  std::int64_t received_bytes = 0;
};

/// A rank's tensors by their names in files. They alias the live state.
class HeldState {
 public:
  /// @param held       parameters and buffers by module name. Weights that are freed between
  ///                   passes (zero = 3) are never read.
  /// @param pieces     the optimizer's pieces
  /// @param optimizer  config of the optimizer that the moments belong to
  HeldState(const std::vector<FilePart>& parts, const TensorMap& held,
            const std::vector<OptimizerPiece>& pieces, const OptimizerConfig& optimizer);

  /// Numbers [begin, end) of this rank's slice of the tensor. REQUIRES: this rank holds them.
  /// @param kind  0: the weights, 1 and 2: the moments
  at::Tensor numbers(const std::string& name, int kind, std::int64_t begin, std::int64_t end) const;
  at::TensorOptions options(const std::string& name, int kind) const;
  /// Copies this rank's part of whole tensors into the live state. Throws Error if a moment is
  /// missing or has a wrong shape.
  /// REQUIRES: the weights are in memory, and `model` has all tensors that this rank holds, in
  /// their shapes.
  /// @param moments  under names of files (moment_names.h)
  void load(const TensorMap& model, const TensorMap& moments) const;

 private:
  std::map<std::string, FilePart> parts_;
  TensorMap held_;
  std::map<std::string, std::vector<OptimizerPiece>> pieces_;
  OptimizerConfig optimizer_;
};

/// Returns the tensors that this rank writes. Tensors that it holds whole alias its state; the
/// others are new. All ranks of the world call it, each with the shares of its stage. A rank
/// receives the numbers that it writes and does not hold. It packs up to 64 MiB, or one tensor, at
/// a time.
CheckpointShare exchange_shares(const dist::ProcessGroup& world,
                                const std::vector<TensorShare>& shares, const HeldState& held);
/// The tensors of exchange_shares() that alias the rank's state. Makes no exchange.
CheckpointShare own_shares(int rank, const std::vector<TensorShare>& shares, const HeldState& held);

}  // namespace penstock
