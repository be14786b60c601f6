#include "penstock/ops/cpu/xsmm/expert_layout.h"

#include <algorithm>

namespace penstock::ops::xsmm {
namespace {

void longest_first(std::vector<Task>& tasks) {
  const auto cost = [](const Task& task) {
    return (task.block_end - task.block_begin) * (task.panel_end - task.panel_begin);
  };
  std::stable_sort(tasks.begin(), tasks.end(),
                   [&](const Task& a, const Task& b) { return cost(a) > cost(b); });
}

}  // namespace

Operands::Operands(const ExpertProblem& problem) : ExpertViews(problem) {
  for (std::int64_t e = 0; e < experts; ++e) {
    first_block.push_back(static_cast<std::int64_t>(blocks.size()));
    for (std::int64_t row = offsets[e]; row < offsets[e + 1]; row += kBlock) {
      blocks.push_back({row, std::min(kBlock, offsets[e + 1] - row), kept_floats});
      kept_floats += blocks.back().width() * inputs * inner;
    }
  }
  first_block.push_back(static_cast<std::int64_t>(blocks.size()));
}

std::vector<Task> forward_tasks(const Operands& operands, const cpu::Group& group) {
  std::vector<Task> tasks;
  for (std::int64_t e = group.first; e < group.last; ++e)
    for (std::int64_t b = operands.first_block[e]; b < operands.first_block[e + 1];
         b += kForwardBlocks)
      tasks.push_back({.expert = e,
                       .block_begin = b,
                       .block_end = std::min(b + kForwardBlocks, operands.first_block[e + 1]),
                       .panel_begin = 0,
                       .panel_end = operands.panels()});
  longest_first(tasks);
  return tasks;
}

std::vector<Task> backward_tasks(const Operands& operands, const cpu::Group& group) {
  const std::int64_t all = operands.offsets[group.last] - operands.offsets[group.first];
  std::vector<Task> tasks;
  std::int64_t partial = 0;
  for (std::int64_t e = group.first; e < group.last; ++e) {
    const std::int64_t rows = operands.offsets[e + 1] - operands.offsets[e];
    const std::int64_t panels = operands.panels();
    const std::int64_t parts = cpu::backward_parts(rows, all, panels);
    for (std::int64_t i = 0; i < parts; ++i, partial += rows)
      tasks.push_back({.expert = e,
                       .block_begin = operands.first_block[e],
                       .block_end = operands.first_block[e + 1],
                       .panel_begin = panels * i / parts,
                       .panel_end = panels * (i + 1) / parts,
                       .partial = partial});
  }
  longest_first(tasks);
  return tasks;
}

}  // namespace penstock::ops::xsmm
