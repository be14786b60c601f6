// Cuts the work of the bf16 expert feed-forward, and packs its weights for the products.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/ops/cpu/bf16/pack.h"
#include "penstock/ops/cpu/bf16/rounding.h"
#include "penstock/ops/cpu/expert_views.h"

namespace penstock::ops::bf16 {

inline constexpr std::int64_t kInner = 128;        ///< columns of f that a task computes at once
inline constexpr std::int64_t kForwardRows = 256;  ///< rows of a forward task
inline constexpr std::int64_t kChunk = 192;        ///< rows that a backward task keeps in cache

/// A problem's views. f is cut into slices of kInner columns. Tiles are padded to `lanes` columns
/// with zeros.
struct Operands : cpu::ExpertViews {
  explicit Operands(const ExpertProblem& problem);

  std::int64_t slices() const { return (inner + kInner - 1) / kInner; }
  std::int64_t columns(std::int64_t slice) const {
    return std::min(kInner, inner - slice * kInner);
  }
  std::int64_t lanes(std::int64_t slice) const { return (columns(slice) + 15) / 16 * 16; }
  /// The floats of the activation's inputs, for all assignments. Their order is slice, assignment,
  /// input, lane.
  std::int64_t kept_floats() const { return kept_at(slices() - 1, assignments); }
  std::int64_t kept_at(std::int64_t slice, std::int64_t assignment) const {
    return inputs * (slice * kInner * assignments + assignment * lanes(slice));
  }
  /// Copies the rows of x [T, row] of assignments [begin, end) to rows [.., row].
  void gather(std::int64_t begin, std::int64_t end, const PairRows& x, Pair* rows) const;
  /// Writes the same rows as panels of d columns, kChunk rows deep.
  void gather_pairs(std::int64_t begin, std::int64_t end, const PairRows& x, Pair* panels) const;

  PairRows x;  ///< hidden
};

/// The experts' matrices in panels: transposed, as the forward pass reads them, or not transposed.
class PackedExperts {
 public:
  enum class Order { transposed, straight };
  enum class Matrices { all, inputs };
  /// Packs the matrices of experts with rows.  Cost: one sweep over them, on all threads.
  PackedExperts(const Operands& operands, Order order, Matrices which = Matrices::all);

  /// The start of a slice of f in matrix i of expert e. Matrix `inputs` is the output matrix.
  const Pair* at(std::int64_t e, std::int64_t i, std::int64_t slice) const;
  /// The stride from panel to panel of matrix i, in pairs.
  std::int64_t panel(std::int64_t i) const;

 private:
  void pack(std::int64_t e, std::int64_t i, std::int64_t part, std::int64_t parts);
  bool is_transposed() const { return order_ == Order::transposed; }
  /// Whether the panels' columns are those of f, and the depth is d.
  bool columns_are_inner(std::int64_t i) const { return (i < operands_.inputs) == is_transposed(); }
  std::int64_t size(std::int64_t i) const;
  /// Pairs of one expert.
  std::int64_t expert() const;

  const Operands& operands_;
  Order order_;
  std::int64_t matrices_;  ///< of an expert
  at::Tensor held_;
  Pair* data_;
};

/// Assignments [begin, end) of one expert.
struct ForwardTask {
  std::int64_t expert, begin, end;
};
std::vector<ForwardTask> forward_tasks(const Operands& operands, const cpu::Group& group);

/// All rows of an expert with slices [slice_begin, slice_end) of f. An expert with many rows has
/// more tasks; each writes its own partial rows.
struct BackwardTask {
  std::int64_t expert, slice_begin, slice_end;
  std::int64_t partial;  ///< the task's first partial row
};
/// The longest tasks are first. Experts without rows have a task too.
std::vector<BackwardTask> backward_tasks(const Operands& operands, const cpu::Group& group);

}  // namespace penstock::ops::bf16
