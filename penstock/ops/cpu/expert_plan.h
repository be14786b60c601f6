// How the expert feed-forward cuts its work into tasks and tiles. No arithmetic on data here.
// Every cut depends on the problem alone, except the rows per forward task, which no result depends
// on; so results do not depend on the number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "penstock/ops/cpu/xsmm.h"
#include "penstock/ops/expert_ffn.h"

namespace penstock::ops::xsmm {

inline constexpr std::int64_t kPanel = 128;     ///< columns of f per panel
inline constexpr std::int64_t kRows = 48;       ///< rows per small product
inline constexpr std::int64_t kChunk = 256;     ///< rows whose panels a backward task keeps at once
inline constexpr std::int64_t kDepthStep = 16;  ///< rows of a chunk are zero-filled up to this

/// A share of one expert's work: rows [begin, end) of the assignments, panels [panel_begin,
/// panel_end) of f, and where the rows' partial results go.
struct Task {
  std::int64_t expert = 0, begin = 0, end = 0, panel_begin = 0, panel_end = 0, partial = 0;

  std::int64_t cost() const { return (end - begin) * (panel_end - panel_begin); }
};

/// Products that differ in one size only, compiled before the threads start.
class ProductTable {
 public:
  /// `step`: sizes are multiples of it, at most `largest`.
  ProductTable(std::int64_t largest, std::int64_t step) : step_(step), table_(largest / step + 1) {}
  template <class MakeShape>
  void prepare(std::int64_t size, const MakeShape& shape) {
    auto& entry = table_[size / step_];
    if (!entry) entry = compile(shape(size));
  }
  const Product& operator[](std::int64_t size) const { return *table_[size / step_]; }

 private:
  std::int64_t step_;
  std::vector<std::optional<Product>> table_;
};

/// Contiguous f32 views of a problem's tensors, kept alive.
struct Operands {
  explicit Operands(const ExpertProblem& problem);

  std::int64_t tokens, width, assignments, experts, inner;  ///< T, d, A, E, f
  std::int64_t panels() const { return (inner + kPanel - 1) / kPanel; }
  /// Columns of a panel: kPanel, or what is left for the last.
  std::int64_t panel_width(std::int64_t panel) const {
    return std::min(kPanel, inner - panel * kPanel);
  }
  const float* gate(std::int64_t expert) const { return w_gate_up + expert * 2 * inner * width; }
  const float* up(std::int64_t expert) const { return gate(expert) + inner * width; }
  const float* down(std::int64_t expert) const { return w_down + expert * width * inner; }

  const float *hidden, *weight, *w_gate_up, *w_down;
  const std::int64_t *token, *offsets, *by_token, *token_offsets;

 private:
  std::vector<at::Tensor> kept_;
};

/// Chunks of each expert's rows, largest first.
std::vector<Task> forward_tasks(const Operands& operands, int threads);
/// Groups of panels of each expert, largest first, experts without rows included. An expert with
/// many rows is cut into more groups; each group writes partial rows of its own.
std::vector<Task> backward_tasks(const Operands& operands);

}  // namespace penstock::ops::xsmm
