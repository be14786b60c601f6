// ATen reference of the grouped expert feed-forward: a loop over experts, any device, f32 and f64.
#include "penstock/ops/expert_ffn.h"

#include <ATen/ATen.h>

namespace penstock::ops::reference {
namespace {

struct Rows {
  std::int64_t begin, count;
};

Rows rows_of(const ExpertProblem& problem, std::int64_t expert) {
  const std::int64_t* offsets = problem.offsets.data_ptr<std::int64_t>();
  return {offsets[expert], offsets[expert + 1] - offsets[expert]};
}

/// Sums rows [A, d] into their tokens [T, d].
at::Tensor combine(const at::Tensor& rows, const ExpertProblem& problem) {
  return at::zeros_like(problem.hidden).index_add_(0, problem.token, rows);
}

}  // namespace

ExpertOutput expert_ffn(const ExpertProblem& problem, bool keep_gate_up) {
  const std::int64_t f = problem.inner();
  const at::Tensor x = problem.hidden.index_select(0, problem.token);  // [A, d]
  at::Tensor gate_up = at::empty({problem.assignments(), 2 * f}, x.options());
  at::Tensor y = at::empty({problem.assignments(), problem.width()}, x.options());
  for (std::int64_t e = 0; e < problem.experts(); ++e) {
    const auto [begin, count] = rows_of(problem, e);
    if (count == 0) continue;
    const at::Tensor gu = at::mm(x.narrow(0, begin, count), problem.w_gate_up[e].t());  // [n, 2f]
    const at::Tensor h = at::silu(gu.narrow(1, 0, f)) * gu.narrow(1, f, f);             // [n, f]
    gate_up.narrow(0, begin, count).copy_(gu);
    y.narrow(0, begin, count).copy_(at::mm(h, problem.w_down[e].t()));
  }
  return {combine(y * problem.weight.unsqueeze(1), problem), keep_gate_up ? gate_up : at::Tensor()};
}

ExpertGradient expert_ffn_backward(const at::Tensor& d_output, const ExpertProblem& problem,
                                   const at::Tensor& gate_up) {
  const std::int64_t f = problem.inner();
  const at::Tensor x = problem.hidden.index_select(0, problem.token);  // [A, d]
  const at::Tensor dy = d_output.index_select(0, problem.token);       // [A, d], unweighted
  at::Tensor dx = at::empty_like(x);
  ExpertGradient gradient{{},
                          at::zeros_like(problem.weight),
                          at::zeros_like(problem.w_gate_up),
                          at::zeros_like(problem.w_down)};
  for (std::int64_t e = 0; e < problem.experts(); ++e) {
    const auto [begin, count] = rows_of(problem, e);
    if (count == 0) continue;
    const at::Tensor weight = problem.weight.narrow(0, begin, count).unsqueeze(1);  // [n, 1]
    const at::Tensor gu = gate_up.narrow(0, begin, count);
    const at::Tensor g = gu.narrow(1, 0, f), u = gu.narrow(1, f, f);  // [n, f]
    const at::Tensor sigmoid = at::sigmoid(g);
    const at::Tensor h = g * sigmoid * u;
    const at::Tensor dye = dy.narrow(0, begin, count);
    const at::Tensor p = at::mm(dye, problem.w_down[e]);  // [n, f]
    gradient.weight.narrow(0, begin, count).copy_((h * p).sum(1));
    const at::Tensor dh = p * weight;
    const at::Tensor dg = dh * u * sigmoid * (1 + g * (1 - sigmoid));
    const at::Tensor dgu = at::cat({dg, dh * g * sigmoid}, 1);  // [n, 2f]
    gradient.w_down[e].copy_(at::mm((dye * weight).t(), h));
    gradient.w_gate_up[e].copy_(at::mm(dgu.t(), x.narrow(0, begin, count)));
    dx.narrow(0, begin, count).copy_(at::mm(dgu, problem.w_gate_up[e]));
  }
  gradient.hidden = combine(dx, problem);
  return gradient;
}

}  // namespace penstock::ops::reference
