// The order of work in an expert feed-forward's passes, for any kind of products. The groups of
// experts run one after another. A group's tasks run in parallel; then their rows are summed into
// the tokens.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "penstock/ops/cpu/expert_combine.h"
#include "penstock/ops/cpu/few_rows/expert_rows.h"
#include "penstock/ops/cpu/parallel.h"
#include "penstock/ops/expert_ffn.h"

namespace penstock::ops::cpu {

/// Runs the tasks of a pass. pass.scratch_floats() is the scratch memory that each thread needs.
template <class Pass>
class TaskRunner {
 public:
  explicit TaskRunner(const Pass& pass)
      : pass_(pass),
        floats_(pass.scratch_floats()),
        scratch_(at::empty({omp_get_max_threads(), floats_}, at::kFloat)),
        data_(scratch_.template data_ptr<float>()) {}
  template <class Task>
  void run(const std::vector<Task>& tasks) const {
    parallel_tasks(std::ssize(tasks), [&](std::int64_t i, int thread) {
      pass_.run(tasks[static_cast<std::size_t>(i)], data_ + thread * floats_);
    });
  }

 private:
  const Pass& pass_;
  std::int64_t floats_;
  at::Tensor scratch_;
  float* data_;
};

/// Writes the row of assignment `a` in a forward pass: to `output`, weighted, if its token has no
/// other assignment, and to `rows` otherwise.
template <class Forward>
void finish_row(const Forward& forward, std::int64_t a, const float* row) {
  const auto& in = forward.in;
  const std::int64_t t = in.token[a];
  const bool only = in.token_offsets[t + 1] - in.token_offsets[t] == 1;
  float* to =
      only ? forward.output + t * in.width : forward.rows + (a - forward.first_row) * in.width;
  scaled_row(in.width, only ? in.weight[a] : 1.0f, row, false, to);
}

/// Runs a forward pass. `forward.in` holds the operands; forward_tasks(in, group) gives a group's
/// tasks. forward.run() gives each row to finish_row(). The first row of `rows` is assignment
/// `first_row`.
template <class Forward>
void forward_groups(Forward& forward) {
  const auto& in = forward.in;
  TokenSums sums(in);
  const std::vector<Group> parts = groups(in);
  const at::Tensor rows =
      at::empty({sums.any() ? largest_group(in, parts) : 0, in.width}, at::kFloat);
  forward.rows = rows.data_ptr<float>();
  const TaskRunner tasks(forward);
  sums.clear_idle(forward.output);
  for (const Group& group : parts) {
    forward.first_row = in.offsets[group.first];
    tasks.run(forward_tasks(in, group));
    sums.add(
        group,
        [&](std::int64_t a, bool add, float* out) {
          scaled_row(in.width, in.weight[a], forward.rows + (a - forward.first_row) * in.width, add,
                     out);
        },
        forward.output);
  }
}

/// Runs a backward pass. `backward.in` holds the operands; backward_tasks(in, group) gives a
/// group's tasks. backward.run() writes partial sums of rows and gates to `row_gradients` and
/// `row_gates`. It writes the gradients of weights and biases to their tensors.
/// @param d_hidden, d_weight  the function writes all elements
template <class Backward>
void backward_groups(Backward& backward, const at::Tensor& d_hidden, const at::Tensor& d_weight) {
  const auto& in = backward.in;
  float* to_hidden = d_hidden.data_ptr<float>();
  float* to_weight = d_weight.data_ptr<float>();
  const std::vector<std::int32_t> expert = experts_of(in);
  const TaskRunner runner(backward);
  TokenSums sums(in, /*all=*/true);
  sums.clear_idle(to_hidden);
  for (const Group& group : groups(in)) {
    const auto tasks = backward_tasks(in, group);
    const Partials partials(tasks, in, group);
    const at::Tensor rows = at::empty({partials.rows(), in.width}, at::kFloat);
    const at::Tensor gates = at::empty({partials.rows()}, at::kFloat);
    backward.row_gradients = rows.data_ptr<float>();
    backward.row_gates = gates.data_ptr<float>();
    runner.run(tasks);
    const Partials::Sums found{backward.row_gradients, backward.row_gates};
    sums.add(
        group,
        [&](std::int64_t a, bool add, float* out) {
          to_weight[a] = partials.add(a, expert[a], found, add, out);
        },
        to_hidden);
  }
}

}  // namespace penstock::ops::cpu
