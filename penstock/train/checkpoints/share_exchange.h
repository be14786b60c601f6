// Brings together what each rank writes of a checkpoint: every tensor whole on its owner alone
// (checkpoint_shares.h).
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
  TensorMap optimizer;  ///< moments, m.NAME and v.NAME, and whatever else resuming needs
  std::int64_t received_bytes = 0;
};

/// A rank's tensors by their names in files. They alias the live state.
class HeldState {
 public:
  /// @param held    parameters and buffers by module name; what is given up between passes (zero =
  ///                3) is never looked at
  /// @param pieces  of the optimizer
  /// @param optimizer  whose moments they are
  HeldState(const std::vector<FilePart>& parts, const TensorMap& held,
            const std::vector<OptimizerPiece>& pieces, const OptimizerConfig& optimizer);

  /// Numbers [begin, end) of the slice that this rank holds. REQUIRES: it does.
  /// @param kind  0: the weights, 1 and 2: the moments
  at::Tensor numbers(const std::string& name, int kind, std::int64_t begin, std::int64_t end) const;
  at::TensorOptions options(const std::string& name, int kind) const;
  /// Takes this rank's part of whole tensors. Throws Error where a moment is missing or misshaped.
  /// REQUIRES: the weights are there, and all that this rank holds is in `model`, of its shape.
  /// @param moments  under names of files (moment_names.h)
  void load(const TensorMap& model, const TensorMap& moments) const;

 private:
  std::map<std::string, FilePart> parts_;
  TensorMap held_;  // flattened
  std::map<std::string, std::vector<OptimizerPiece>> pieces_;
  OptimizerConfig optimizer_;
};

/// This rank's tensors. Those that it holds whole alias its state, the others are its own. All
/// ranks of the world call it, each with the shares of its stage. A rank receives what it writes
/// and does not hold, and packs up to 64 MiB or a tensor at a time.
CheckpointShare exchange_shares(const dist::ProcessGroup& world,
                                const std::vector<TensorShare>& shares, const HeldState& held);
/// Those of them that alias its state, without an exchange.
CheckpointShare own_shares(int rank, const std::vector<TensorShare>& shares, const HeldState& held);

}  // namespace penstock
