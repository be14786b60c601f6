// Operators on matrices in the number types of files (stored_rows.h). They read the stored bytes
// directly. No gradient; CPU only.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "penstock/ops/ops.h"
#include "penstock/ops/stored_rows.h"

namespace penstock::ops {

/// Rows [first, first + count) as f32, with exactly the bits that the types' definitions give.
/// @return [count, depth]
at::Tensor expand(const StoredMatrix& matrix, std::int64_t first, std::int64_t count);

/// y = x · wᵀ + b.  @param x [.., depth] f32, dense or not;  @param b [rows] f32
/// For at most 16 rows of x, the result has the bits of ops::linear on the expanded matrix; with
/// Activations::int8, x is rounded first. A row's result does not depend on the other rows. For
/// more rows of x, it expands the matrix's rows in groups, at most 1 Mi numbers at a time, and
/// multiplies them as Activations says.
at::Tensor linear(const at::Tensor& x, const StoredMatrix& w,
                  const std::optional<at::Tensor>& b = std::nullopt);

/// ops::linear with `stored` if it has rows, else with `w`.
at::Tensor linear(const at::Tensor& x, const at::Tensor& w, const StoredMatrix& stored,
                  const std::optional<at::Tensor>& b);

/// A module that can read some of its parameters as a file stores them.
class ReadsStored {
 public:
  virtual ~ReadsStored() = default;
  /// Makes the module read `matrix` from now on instead of the named parameter, whose axes but the
  /// last are the matrix's rows. The parameter keeps its shape, holds NaN and frees its memory.
  /// @return false, with no change, if the parameter must be f32. REQUIRES: the shapes fit
  /// (asserted).
  virtual bool read_from(const std::string& parameter, const StoredMatrix& matrix) = 0;
  /// Whether the module reads all of its matrices from the file or none, because one operator takes
  /// them all.
  virtual bool reads_all_or_none() const { return false; }

 protected:
  /// Frees the parameter's memory and makes it hold NaN, for read_from().
  static void give_up(at::Tensor& parameter, const StoredMatrix& matrix);
};

/// The rows of the ids, as ops::embedding.  @param ids i64, each in [0, rows) (checked).
/// @return [ids.., depth]
at::Tensor embedding(const StoredMatrix& table, const at::Tensor& ids);

/// ops::linear_cross_entropy_rows of a stored matrix: −log softmax(h · wᵀ)[target]. A matrix of at
/// most 16 Mi numbers is expanded at once, and the result has the bits of that operator. A larger
/// matrix is expanded in groups of rows.
/// @param hidden [R, depth] f32;  @param targets [R] i64 in [0, rows) (checked).  @return [R] f32
at::Tensor linear_cross_entropy_rows(const at::Tensor& hidden, const StoredMatrix& w,
                                     const at::Tensor& targets);

/// The mean over the rows, as ops::linear_cross_entropy; without gradient.
at::Tensor linear_cross_entropy(const at::Tensor& hidden, const StoredMatrix& w,
                                const at::Tensor& targets);

/// The matrices of experts without biases. Each expert has m matrices before the activation, the
/// gate's first, each [f, d], and one matrix after it, [d, f].
struct StoredExperts {
  std::int64_t width = 0, inner = 0;  ///< d, f
  std::vector<StoredRows> in, out;    ///< m·E matrices, expert by expert; E matrices
  std::int64_t count() const { return static_cast<std::int64_t>(out.size()); }
};
std::string describe(const StoredExperts& experts);

/// The arguments of ops::expert_ffn that assign tokens to experts.
struct PlanTensors {
  at::Tensor weight, token, offsets, by_token, token_offsets;
};

/// ops::expert_ffn of stored experts. For at most 16 tokens, the result has the bits of
/// ops::expert_ffn on the expanded matrices, except with Activations::int8. For more tokens, it
/// expands a few experts at a time.
/// @param hidden [T, d] f32.  @return [T, d]
at::Tensor expert_ffn(const at::Tensor& hidden, const PlanTensors& plan,
                      const StoredExperts& experts, Activation activation);

}  // namespace penstock::ops
