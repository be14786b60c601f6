#include "penstock/ops/cpu/expert_plan.h"

#ifdef PENSTOCK_HAVE_XSMM

#include <ATen/ATen.h>

#include <algorithm>

namespace penstock::ops::xsmm {
namespace {

void largest_first(std::vector<Task>& tasks) {
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const Task& a, const Task& b) { return a.cost() > b.cost(); });
}

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

Operands::Operands(const ExpertProblem& problem)
    : tokens(problem.tokens()),
      width(problem.width()),
      assignments(problem.assignments()),
      experts(problem.experts()),
      inner(problem.inner()) {
  const auto floats = [this](const at::Tensor& tensor) {
    return kept_.emplace_back(tensor.contiguous()).data_ptr<float>();
  };
  const auto indices = [this](const at::Tensor& tensor) {
    return kept_.emplace_back(tensor.contiguous()).data_ptr<std::int64_t>();
  };
  hidden = floats(problem.hidden);
  weight = floats(problem.weight);
  w_gate_up = floats(problem.w_gate_up);
  w_down = floats(problem.w_down);
  token = indices(problem.token);
  offsets = indices(problem.offsets);
  by_token = indices(problem.by_token);
  token_offsets = indices(problem.token_offsets);
}

std::vector<Task> forward_tasks(const Operands& operands, int threads) {
  // Small enough to balance, large enough to pay for packing the weights.
  const std::int64_t most =
      std::clamp<std::int64_t>(divide_up(operands.assignments, 4 * threads), kRows, 512);
  std::vector<Task> tasks;
  for (std::int64_t e = 0; e < operands.experts; ++e) {
    const std::int64_t begin = operands.offsets[e], rows = operands.offsets[e + 1] - begin;
    const std::int64_t parts = divide_up(rows, most);
    for (std::int64_t i = 0; i < parts; ++i)
      tasks.push_back({.expert = e,
                       .begin = begin + rows * i / parts,
                       .end = begin + rows * (i + 1) / parts,
                       .panel_begin = 0,
                       .panel_end = operands.panels()});
  }
  largest_first(tasks);
  return tasks;
}

std::vector<Task> backward_tasks(const Operands& operands) {
  constexpr std::int64_t kShares = 16;  // an expert with more than 1/16 of the rows is cut
  std::vector<Task> tasks;
  std::int64_t partial = 0;
  for (std::int64_t e = 0; e < operands.experts; ++e) {
    const std::int64_t begin = operands.offsets[e], end = operands.offsets[e + 1];
    const std::int64_t rows = end - begin, panels = operands.panels();
    const std::int64_t wanted =
        rows ? divide_up(kShares * rows, operands.assignments) : std::int64_t{1};
    const std::int64_t parts = std::clamp<std::int64_t>(wanted, 1, panels);
    for (std::int64_t i = 0; i < parts; ++i, partial += rows)
      tasks.push_back({.expert = e,
                       .begin = begin,
                       .end = end,
                       .panel_begin = panels * i / parts,
                       .panel_end = panels * (i + 1) / parts,
                       .partial = partial});
  }
  largest_first(tasks);
  return tasks;
}

}  // namespace penstock::ops::xsmm

#endif
