// The rows that ranks have in common where they divide a layer's products between them: how each
// holds them between products, how they enter a product and how they leave it. It divides no
// weights; those are the layers'.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "penstock/dist/group.h"

namespace penstock {

/// x, which all ranks have alike and each uses for its part.
/// Gradient: the sum over the ranks, on each. With one rank nothing is done.
at::Tensor shared_by_ranks(const at::Tensor& x, const dist::ProcessGroup& group);

/// N rows of t ranks: each rank holds all of them, or N/t consecutive ones, in the order of the
/// ranks. Sums are in that order and the same bits on all ranks. Every rank makes the same calls.
/// Source of divided rows: sequence parallelism, Korthikanti et al. 2022, arXiv:2205.05198, §4.2.2.
class RankRows {
 public:
  /// @param divided  each rank holds N/t rows.  REQUIRES then: N is a multiple of t (asserted).
  RankRows(dist::ProcessGroup ranks = {},  // NOLINT(google-explicit-constructor)
           bool divided = false);

  const dist::ProcessGroup& ranks() const { return ranks_; }
  bool divided() const { return divided_; }
  /// One rank's share of all rows: 1, or 1/t.
  double share() const { return divided_ ? 1.0 / ranks_.size() : 1; }
  /// Sizes of what one rank holds of rows [B, T, d]: these, or [B·T/t, d].
  std::vector<std::int64_t> sizes(std::int64_t sequences, std::int64_t length,
                                  std::int64_t width) const;

  /// All rows, for this rank's part of a product.
  /// @param held  the rows that this rank holds, [.., d].  @return the same, or [N, d].
  /// Gradient: the sum over the ranks, of the rows held.
  at::Tensor enter(const at::Tensor& held) const;
  /// Rows that have entered, for what all ranks compute alike from all of them.
  /// @param entered  [N, d].  Gradient: of each row that of one rank, so that their sum counts
  /// once.
  at::Tensor alike(const at::Tensor& entered) const;
  /// Σ over ranks of their parts of a product, of the rows that this rank holds.
  /// @param parts  [.., d], of all rows.  @return the same shape, or [N/t, d].
  /// Gradient: that of all rows, to each part.
  at::Tensor leave(const at::Tensor& parts) const;

  /// Of numbers that all ranks have, one of each row, those of the rows held: `all`, or [N/t].
  at::Tensor held(const at::Tensor& all) const;
  /// The mean over all rows, on every rank, of the means over the rows that each holds.
  /// Gradient: of the own one, its share.
  at::Tensor mean(const at::Tensor& of_held) const;

 private:
  dist::ProcessGroup ranks_;
  bool divided_;
};

}  // namespace penstock
