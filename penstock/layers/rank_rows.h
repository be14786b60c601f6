// The rows of ranks that divide a layer's products (tensor parallelism): the rows that a rank holds
// between products, and the communication before and after a product. Layers divide their weights
// themselves.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "penstock/dist/group.h"

namespace penstock {

/// Returns x, which is equal on all ranks and which each rank uses for its part of a product.
/// Gradient: the sum over ranks, on each rank. With one rank it does nothing.
at::Tensor shared_by_ranks(const at::Tensor& x, const dist::ProcessGroup& group);

/// N rows of t ranks. Each rank holds all rows, or N/t consecutive rows in the order of the ranks.
/// Sums are taken in the order of the ranks, so all ranks get the same bits.
/// REQUIRES: every rank makes the same calls.
/// Source of divided rows: sequence parallelism, Korthikanti et al. 2022, arXiv:2205.05198, §4.2.2.
class RankRows {
 public:
  /// @param divided  whether each rank holds N/t rows.  REQUIRES if so: N is a multiple of t
  ///                 (asserted).
  RankRows(dist::ProcessGroup ranks = {},  // NOLINT(google-explicit-constructor)
           bool divided = false);

  const dist::ProcessGroup& ranks() const { return ranks_; }
  bool divided() const { return divided_; }
  /// The share of all rows that one rank holds: 1, or 1/t.
  double share() const { return divided_ ? 1.0 / ranks_.size() : 1; }
  /// The sizes of the tensor that one rank holds of rows [B, T, d]: [B, T, d], or [B·T/t, d].
  std::vector<std::int64_t> sizes(std::int64_t sequences, std::int64_t length,
                                  std::int64_t width) const;

  /// Returns all rows, for this rank's part of a product.
  /// @param held  [.., d], the rows that this rank holds.  @return the same tensor, or [N, d].
  /// Gradient: held, the sum over ranks.
  at::Tensor enter(const at::Tensor& held) const;
  /// Returns the rows for computations that all ranks do in the same way.
  /// @param entered  [N, d], from enter().
  /// Gradient: entered. Each rank keeps the gradients of its own rows and sets the others to 0, so
  /// that the sum over ranks counts each row once.
  at::Tensor alike(const at::Tensor& entered) const;
  /// Sums the ranks' parts of a product. Returns the rows that this rank holds.
  /// @param parts  [.., d], this rank's part of all rows.  @return the same shape, or [N/t, d].
  /// Gradient: parts, the gradient of all rows.
  at::Tensor leave(const at::Tensor& parts) const;

  /// Returns the numbers of the rows that this rank holds: `all`, or [N/t].
  /// @param all  one number per row, equal on all ranks
  at::Tensor held(const at::Tensor& all) const;
  /// Returns the mean over all rows, on every rank.
  /// @param of_held  the mean over the rows that this rank holds
  /// Gradient: of_held, times 1/t if rows are divided.
  at::Tensor mean(const at::Tensor& of_held) const;

 private:
  dist::ProcessGroup ranks_;
  bool divided_;
};

}  // namespace penstock
