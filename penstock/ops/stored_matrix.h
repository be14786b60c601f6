// Matrices of inference in the types of files: their rows lie where a file was mapped, and products
// read them as they are. No gradient, no other device than the CPU; who maps files and finds rows
// in them is elsewhere (models/files/stored_model.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/ops/ops.h"

namespace penstock::ops {

/// Plain numbers, and GGUF's blocks of numbers that share scales.
enum class RowType { f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k, q6_k };

/// Numbers of a block, and its bytes: {256, 144} of Q4_K, {1, 2} of bf16.
struct RowBlock {
  std::int64_t numbers, bytes;
};
RowBlock row_block(RowType type);
std::string_view row_type_name(RowType type);
/// Bytes of a row of that many numbers. REQUIRES: whole blocks (asserted).
std::int64_t row_bytes(RowType type, std::int64_t depth);

/// How products of few rows see x: as it is, or, where w is Q4_K or Q6_K, rounded to 8-bit integers
/// in groups of 32 numbers with a scale each, which is faster.
enum class Activations { f32, int8 };

/// Rows of one type, one after another. Whose memory it is keeps it alive.
struct StoredRows {
  RowType type = RowType::f32;
  std::int64_t rows = 0;
  const std::byte* data = nullptr;
  Activations activations = Activations::f32;
};

/// [rows, depth], its pieces one below another.
struct StoredMatrix {
  std::int64_t depth = 0;
  std::vector<StoredRows> pieces;
  bool empty() const { return pieces.empty(); }
  std::int64_t rows() const;
  /// Of the weights as they are stored.
  std::int64_t bytes() const;
};
std::string describe(const StoredMatrix& matrix);
double bytes_of(const StoredMatrix& matrix);

/// Rows [first, first + count) as f32, bit for bit what the types' descriptions say.  @return
/// [count, depth]
at::Tensor expand(const StoredMatrix& matrix, std::int64_t first, std::int64_t count);

/// y = x · wᵀ + b.  @param x [.., depth] f32, dense or not;  @param b [rows] f32
/// For at most 16 rows of x with the bits of ops::linear on the expanded matrix, or with
/// Activations::int8 on x rounded: a row's result does not depend on the others. For more, groups
/// of the matrix's rows are expanded one after another, at most 1 Mi numbers at a time.
at::Tensor linear(const at::Tensor& x, const StoredMatrix& w,
                  const std::optional<at::Tensor>& b = std::nullopt);

/// ops::linear of `stored` where it has rows, else of `w`.
at::Tensor linear(const at::Tensor& x, const at::Tensor& w, const StoredMatrix& stored,
                  const std::optional<at::Tensor>& b);

/// A module of which some parameters can be read as a file has them.
class ReadsStored {
 public:
  virtual ~ReadsStored() = default;
  /// From now on reads the matrix in place of its parameter of that name (all axes but the last are
  /// rows), which keeps its shape, holds NaN and gives its memory back.  @return false: this one
  /// has to be f32, and nothing changed. REQUIRES: the shapes fit (asserted).
  virtual bool read_from(const std::string& parameter, const StoredMatrix& matrix) = 0;
  /// Whether it reads either all of its matrices so or none, because one operator takes them all.
  virtual bool reads_all_or_none() const { return false; }

 protected:
  /// What read_from() does to the parameter.
  static void give_up(at::Tensor& parameter, const StoredMatrix& matrix);
};

/// The rows of those ids, as ops::embedding. @param ids i64, each in [0, rows) (checked).
/// @return [ids.., depth]
at::Tensor embedding(const StoredMatrix& table, const at::Tensor& ids);

/// ops::linear_cross_entropy_rows without expanding the whole matrix: −log softmax(h · wᵀ)[target].
/// Up to 16 Mi numbers are expanded at once, and the bits are that operator's.
/// @param hidden [R, depth] f32;  @param targets [R] i64 in [0, rows) (checked).  @return [R] f32
at::Tensor linear_cross_entropy_rows(const at::Tensor& hidden, const StoredMatrix& w,
                                     const at::Tensor& targets);

/// The mean over the rows, as ops::linear_cross_entropy; without gradient.
at::Tensor linear_cross_entropy(const at::Tensor& hidden, const StoredMatrix& w,
                                const at::Tensor& targets);

/// The matrices of experts without biases: of each expert those that feed the activation, a gate's
/// first, all [f, d]; and one back, [d, f].
struct StoredExperts {
  std::int64_t width = 0, inner = 0;  ///< d, f
  std::vector<StoredRows> in, out;    ///< m·E, expert by expert; E
  std::int64_t count() const { return static_cast<std::int64_t>(out.size()); }
};
std::string describe(const StoredExperts& experts);

/// The arguments of ops::expert_ffn that say which expert computes which token.
struct PlanTensors {
  at::Tensor weight, token, offsets, by_token, token_offsets;
};

/// ops::expert_ffn of stored experts. For at most 16 tokens with the bits of that on the expanded
/// ones, but for Activations::int8; for more, a few experts are expanded at a time.  @param hidden
/// [T, d] f32.  @return [T, d]
at::Tensor expert_ffn(const at::Tensor& hidden, const PlanTensors& plan,
                      const StoredExperts& experts, Activation activation);

}  // namespace penstock::ops
