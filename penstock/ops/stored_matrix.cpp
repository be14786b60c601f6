// Operators on stored matrices. They read the matrices as they are stored, or expand some rows.
#include "penstock/ops/stored_matrix.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "penstock/base/error.h"
#include "penstock/ops/check.h"
#include "penstock/ops/cpu/few_rows/dot_rows.h"
#include "penstock/ops/cpu/few_rows/int8_rows.h"
#include "penstock/ops/cpu/few_rows/linear_rows.h"
#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/implementation.h"
#include "penstock/ops/rows_alone.h"

namespace penstock::ops {
namespace {

/// The most numbers that are expanded at a time.
constexpr std::int64_t kExpanded = std::int64_t{1} << 20;
/// The most numbers of a head that is expanded as a whole.
constexpr std::int64_t kExpandedHead = std::int64_t{1} << 24;

std::int64_t group_rows(const StoredMatrix& w) {
  return std::max<std::int64_t>(1,
                                std::min(w.rows(), kExpanded / std::max<std::int64_t>(1, w.depth)));
}

/// Calls body(piece, row, rows, at) for each piece of the rows [first, first + count): rows [row,
/// row + rows) of `piece` are rows `at` and on of the range.
template <class Body>
void each_piece(const StoredMatrix& w, std::int64_t first, std::int64_t count, const Body& body) {
  std::int64_t begin = 0;  // the piece's first row in the matrix
  for (const StoredRows& piece : w.pieces) {
    const std::int64_t from = std::max(first, begin),
                       to = std::min(first + count, begin + piece.rows);
    if (from < to) body(piece, from - begin, to - from, from - first);
    begin += piece.rows;
  }
}

at::Tensor expand_groups(const at::Tensor& x, const StoredMatrix& w, const at::Tensor& b) {
  const PrecisionScope scope(cpu::precision_of_many({w.pieces}));
  at::Tensor y = at::empty({x.size(0), w.rows()}, x.options());
  const std::int64_t group = group_rows(w);
  for (std::int64_t first = 0; first < w.rows(); first += group) {
    const std::int64_t count = std::min(group, w.rows() - first);
    y.narrow(1, first, count).copy_(ops::linear(x, expand(w, first, count)));
  }
  return b.defined() ? y.add_(b) : y;
}

using Linear = at::Tensor(const at::Tensor&, const StoredMatrix&, const at::Tensor&);

std::string declines_rows(const at::Tensor& x, const StoredMatrix&, const at::Tensor&) {
  if (x.size(0) == 0) return "no rows";
  return takes_few_rows(x.size(0)) ? "" : "more than 16 rows";
}

const Implementations<Linear>& linear_list() {
  static const Implementations<Linear> list(
      "stored_linear",
      {{"rows", declines_rows, cpu::few_rows_linear}, {"expand", nullptr, expand_groups}},
      [](const at::Tensor& x, const StoredMatrix& w, const at::Tensor&) {
        // For many rows, the operator on expanded rows counts the products.
        const std::int64_t products =
            takes_few_rows(x.size(0)) ? x.size(0) * w.rows() * w.depth : 0;
        return Cost{.flops = 2.0 * static_cast<double>(products)};
      });
  return list;
}

}  // namespace

at::Tensor expand(const StoredMatrix& matrix, std::int64_t first, std::int64_t count) {
  at::Tensor out = at::empty({count, matrix.depth}, at::kFloat);
  float* const to = out.data_ptr<float>();
  const std::int64_t depth = matrix.depth, grain = std::max<std::int64_t>(1, 16384 / (depth + 1));
  each_piece(matrix, first, count,
             [&](const StoredRows& piece, std::int64_t row, std::int64_t rows, std::int64_t at) {
               const std::int64_t bytes = row_bytes(piece.type, depth);
               cpu::parallel_ranges(rows, grain, [&](std::int64_t begin, std::int64_t end) {
                 cpu::expand_rows(piece.type, piece.data + (row + begin) * bytes, end - begin,
                                  depth, to + (at + begin) * depth);
               });
             });
  return out;
}

at::Tensor linear(const at::Tensor& x, const StoredMatrix& w, const std::optional<at::Tensor>& b) {
  PENSTOCK_CHECK(
      x.scalar_type() == at::kFloat && x.device().is_cpu() && x.dim() >= 1 && x.size(-1) == w.depth,
      "[linear] x ", describe(x), " must be f32 [.., ", w.depth, "] on the CPU for w ",
      describe(w));
  auto shape = x.sizes().vec();
  shape.back() = w.rows();
  const at::Tensor rows = x.reshape({-1, w.depth});
  return linear_list().run(rows, w, b.value_or(at::Tensor())).view(shape);
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& w, const StoredMatrix& stored,
                  const std::optional<at::Tensor>& b) {
  return stored.empty() ? ops::linear(x, w, b) : ops::linear(x, stored, b);
}

void ReadsStored::give_up(at::Tensor& parameter, const StoredMatrix& matrix) {
  PENSTOCK_ASSERT(parameter.size(-1) == matrix.depth &&
                  parameter.numel() == matrix.rows() * matrix.depth);
  const auto nothing = at::full({1}, std::numeric_limits<float>::quiet_NaN(), parameter.options());
  parameter.set_data(nothing.expand(parameter.sizes()));
}

at::Tensor embedding(const StoredMatrix& table, const at::Tensor& ids_in) {
  check_index_range(ids_in, table.rows(), "embedding", "id");
  const at::Tensor ids = ids_in.contiguous();
  auto shape = ids.sizes().vec();
  shape.push_back(table.depth);
  at::Tensor out = at::empty(shape, at::kFloat);
  float* to = out.data_ptr<float>();
  for (std::int64_t i = 0; i < ids.numel(); ++i, to += table.depth)
    each_piece(table, ids.data_ptr<std::int64_t>()[i], 1,
               [&](const StoredRows& piece, std::int64_t row, std::int64_t, std::int64_t) {
                 cpu::expand_rows(piece.type, piece.data + row * row_bytes(piece.type, table.depth),
                                  1, table.depth, to);
               });
  return out;
}

at::Tensor linear_cross_entropy_rows(const at::Tensor& hidden, const StoredMatrix& w,
                                     const at::Tensor& targets) {
  if (w.rows() * w.depth <= kExpandedHead)
    return ops::linear_cross_entropy_rows(hidden, expand(w, 0, w.rows()), targets);
  check_index_range(targets, w.rows(), "linear_cross_entropy", "target");
  // Computes the logits of one group of columns after another. logaddexp adds each group's
  // logsumexp to the rows' total.
  const auto options = hidden.options();
  at::Tensor total = at::full({hidden.size(0)}, -std::numeric_limits<float>::infinity(), options);
  at::Tensor chosen = at::zeros({hidden.size(0)}, options);
  const std::int64_t group = group_rows(w);
  for (std::int64_t first = 0; first < w.rows(); first += group) {
    const std::int64_t count = std::min(group, w.rows() - first);
    const at::Tensor logits = ops::linear(hidden, expand(w, first, count));  // [R, count]
    total = at::logaddexp(total, at::logsumexp(logits, 1));
    const at::Tensor place = targets - first;
    const at::Tensor here = (place >= 0).logical_and(place < count);
    const at::Tensor own = logits.gather(1, place.clamp(0, count - 1).unsqueeze(1)).squeeze(1);
    chosen = at::where(here, own, chosen);
  }
  return total - chosen;
}

at::Tensor linear_cross_entropy(const at::Tensor& hidden, const StoredMatrix& w,
                                const at::Tensor& targets) {
  if (w.rows() * w.depth <= kExpandedHead || hidden.size(0) == 0)
    return ops::linear_cross_entropy(hidden, expand(w, 0, w.rows()), targets);
  return linear_cross_entropy_rows(hidden, w, targets).mean(at::kDouble).to(at::kFloat);
}

}  // namespace penstock::ops
