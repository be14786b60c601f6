#include "penstock/ops/cpu/bf16/expert_layout.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

#include "penstock/ops/cpu/parallel.h"

namespace penstock::ops::bf16 {
namespace {

constexpr std::int64_t kParts = 4;  // tasks that pack one matrix

const std::uint16_t* row_of(const PairRows& x, std::int64_t row) {
  return reinterpret_cast<const std::uint16_t*>(x.data() + row * x.row);
}

}  // namespace

Operands::Operands(const ExpertProblem& problem)
    : ExpertViews(problem), x(pair_rows(problem.hidden.contiguous())) {}

void Operands::gather(std::int64_t begin, std::int64_t end, const PairRows& from,
                      Pair* rows) const {
  for (std::int64_t a = begin; a < end; ++a, rows += from.row)
    std::memcpy(rows, from.data() + token[a] * from.row, sizeof(Pair) * from.row);
}

void Operands::gather_pairs(std::int64_t begin, std::int64_t end, const PairRows& from,
                            Pair* panels) const {
  const std::uint16_t* none = nullptr;
  for (std::int64_t a = begin; a < end; a += 2, panels += kPanel)
    pack_row_pair(width, row_of(from, token[a]), a + 1 < end ? row_of(from, token[a + 1]) : none,
                  panels, kChunk / 2 * kPanel);
}

PackedExperts::PackedExperts(const Operands& operands, Order order, Matrices which)
    : operands_(operands),
      order_(order),
      matrices_(operands.inputs + (which == Matrices::all ? 1 : 0)),
      held_(at::empty({operands.experts * expert()}, at::kInt)),
      data_(static_cast<Pair*>(held_.data_ptr())) {
  cpu::parallel_tasks(operands.experts * matrices_ * kParts, [&](std::int64_t task, int) {
    const std::int64_t e = task / (matrices_ * kParts), i = task / kParts % matrices_;
    if (operands.offsets[e] < operands.offsets[e + 1]) pack(e, i, task % kParts, kParts);
  });
}

std::int64_t PackedExperts::size(std::int64_t i) const {
  return columns_are_inner(i) ? panel_pairs(operands_.inner, pairs_of(operands_.width))
                              : panel_pairs(operands_.width, pairs_of(operands_.inner));
}

std::int64_t PackedExperts::expert() const {
  std::int64_t all = 0;
  for (std::int64_t i = 0; i < matrices_; ++i) all += size(i);
  return all;
}

std::int64_t PackedExperts::panel(std::int64_t i) const {
  return kPanel * pairs_of(columns_are_inner(i) ? operands_.width : operands_.inner);
}

const Pair* PackedExperts::at(std::int64_t e, std::int64_t i, std::int64_t slice) const {
  const std::int64_t within =
      columns_are_inner(i) ? slice * (kInner / kPanel) * panel(i) : slice * (kInner / 2) * kPanel;
  return data_ + e * expert() + i * size(0) + within;
}

void PackedExperts::pack(std::int64_t e, std::int64_t i, std::int64_t part, std::int64_t parts) {
  const bool out = i == operands_.inputs;
  const float* from = out ? operands_.out(e) : operands_.in(e, i);
  const std::int64_t rows = out ? operands_.width : operands_.inner,
                     columns = out ? operands_.inner : operands_.width;
  Pair* to = data_ + (at(e, i, 0) - data_);
  const std::int64_t all = is_transposed() ? cpu::divide_up(rows, kPanel) : pairs_of(rows);
  const std::int64_t first = all * part / parts, last = all * (part + 1) / parts;
  if (is_transposed())
    pack_transposed(first, last, rows, columns, from, to);
  else
    pack_rows(first, last, rows, columns, from, to, panel(i));
}

std::vector<ForwardTask> forward_tasks(const Operands& operands, const cpu::Group& group) {
  constexpr std::int64_t kTile = 32;  // rows of a product's tile
  std::vector<ForwardTask> tasks;
  for (std::int64_t e = group.first; e < group.last; ++e) {
    const std::int64_t begin = operands.offsets[e], end = operands.offsets[e + 1];
    if (begin == end) continue;
    const std::int64_t even =
        cpu::divide_up(end - begin, cpu::divide_up(end - begin, kForwardRows));
    const std::int64_t rows = cpu::divide_up(even, kTile) * kTile;
    for (std::int64_t a = begin; a < end; a += rows)
      tasks.push_back({e, a, std::min(a + rows, end)});
  }
  return tasks;
}

std::vector<BackwardTask> backward_tasks(const Operands& operands, const cpu::Group& group) {
  const std::int64_t all = operands.offsets[group.last] - operands.offsets[group.first];
  const std::int64_t slices = operands.slices();
  const auto rows_of = [&](std::int64_t e) {
    return operands.offsets[e + 1] - operands.offsets[e];
  };
  std::vector<BackwardTask> tasks;
  std::int64_t partial = 0;
  for (std::int64_t e = group.first; e < group.last; ++e) {
    const std::int64_t rows = rows_of(e);
    const std::int64_t parts = cpu::backward_parts(rows, all, slices);
    for (std::int64_t i = 0; i < parts; ++i, partial += rows)
      tasks.push_back({.expert = e,
                       .slice_begin = slices * i / parts,
                       .slice_end = slices * (i + 1) / parts,
                       .partial = partial});
  }
  const auto cost = [&](const BackwardTask& task) {
    return rows_of(task.expert) * (task.slice_end - task.slice_begin);
  };
  std::stable_sort(tasks.begin(), tasks.end(),
                   [&](const BackwardTask& a, const BackwardTask& b) { return cost(a) > cost(b); });
  return tasks;
}

}  // namespace penstock::ops::bf16
