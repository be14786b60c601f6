// ATen reference of the grouped expert feed-forward: a loop over experts. Any device, f32 and f64.
#include "penstock/ops/expert_ffn.h"

#include <ATen/ATen.h>

#include "penstock/ops/dropout.h"
#include "penstock/ops/machine/precision.h"

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
  return at::zeros(problem.hidden.sizes(), rows.options()).index_add_(0, problem.token, rows);
}

/// a·b. Both are rounded if the problem's products are in bf16.
at::Tensor product(const ExpertProblem& problem, const at::Tensor& a, const at::Tensor& b) {
  return at::mm(rounded_like(problem.hidden, a), rounded_like(problem.hidden, b));
}

/// The token's row of each assignment, [A, d].
at::Tensor gathered(const ExpertProblem& problem) {
  return problem.hidden.to(problem.w_in.scalar_type()).index_select(0, problem.token);
}

/// The activation's inputs [n, m·f] of one expert's rows.
at::Tensor inputs_of(const ExpertProblem& problem, std::int64_t expert, const at::Tensor& x) {
  const at::Tensor in = product(problem, x, problem.w_in[expert].t());
  return problem.b_in.defined() ? in + problem.b_in[expert] : in;
}

at::Tensor activate(const ExpertProblem& problem, const at::Tensor& in) {
  if (problem.activation == Activation::relu) return in.relu();
  const std::int64_t f = problem.inner();
  return at::silu(in.narrow(1, 0, f)) * in.narrow(1, f, f);
}

/// The factors of dropout for an expert's activations [n, f]; undefined without dropout.
at::Tensor mask_of(const ExpertProblem& problem, Rows rows) {
  if (problem.dropout == 0) return {};
  return dropout_mask(problem.drop(), rows.begin, rows.count, problem.inner(),
                      problem.w_in.options().requires_grad(false));
}
at::Tensor masked(const at::Tensor& x, const at::Tensor& mask) {
  return mask.defined() ? x * mask : x;
}

/// The gradient of the activation's inputs from the gradient of its outputs.
at::Tensor activate_backward(const ExpertProblem& problem, const at::Tensor& in,
                             const at::Tensor& dh) {
  if (problem.activation == Activation::relu) return dh * in.gt(0);
  const std::int64_t f = problem.inner();
  const at::Tensor g = in.narrow(1, 0, f), u = in.narrow(1, f, f), sigmoid = at::sigmoid(g);
  return at::cat({dh * u * sigmoid * (1 + g * (1 - sigmoid)), dh * g * sigmoid}, 1);
}

}  // namespace

ExpertOutput expert_ffn(const ExpertProblem& problem, bool keep) {
  const at::Tensor x = gathered(problem);
  at::Tensor kept =
      at::empty({problem.assignments(), problem.inputs() * problem.inner()}, x.options());
  at::Tensor y = at::empty({problem.assignments(), problem.width()}, x.options());
  for (std::int64_t e = 0; e < problem.experts(); ++e) {
    const auto [begin, count] = rows_of(problem, e);
    if (count == 0) continue;
    const at::Tensor in = inputs_of(problem, e, x.narrow(0, begin, count));
    const at::Tensor h = masked(activate(problem, in), mask_of(problem, {begin, count}));
    const at::Tensor out = product(problem, h, problem.w_out[e].t());
    kept.narrow(0, begin, count).copy_(in);
    y.narrow(0, begin, count).copy_(problem.b_out.defined() ? out + problem.b_out[e] : out);
  }
  return {combine(y * problem.weight.unsqueeze(1), problem), keep ? kept : at::Tensor()};
}

ExpertGradient expert_ffn_backward(const at::Tensor& d_output, const ExpertProblem& problem,
                                   const at::Tensor& kept) {
  const at::Tensor x = gathered(problem);
  const at::Tensor dy = d_output.index_select(0, problem.token);  // [A, d], unweighted
  at::Tensor dx = at::empty_like(x);
  const auto zeros = [](const at::Tensor& like) {
    return like.defined() ? at::zeros_like(like) : at::Tensor();
  };
  ExpertGradient gradient{{},
                          zeros(problem.weight),
                          zeros(problem.w_in),
                          zeros(problem.w_out),
                          zeros(problem.b_in),
                          zeros(problem.b_out)};
  const bool usable = kept.defined() && kept.dim() == 2;  // else another implementation kept it
  for (std::int64_t e = 0; e < problem.experts(); ++e) {
    const auto [begin, count] = rows_of(problem, e);
    if (count == 0) continue;
    const at::Tensor xe = x.narrow(0, begin, count), dye = dy.narrow(0, begin, count);
    const at::Tensor weight = problem.weight.narrow(0, begin, count).unsqueeze(1);  // [n, 1]
    const at::Tensor in = usable ? kept.narrow(0, begin, count) : inputs_of(problem, e, xe);
    const at::Tensor mask = mask_of(problem, {begin, count});
    const at::Tensor h = masked(activate(problem, in), mask);
    const at::Tensor p = product(problem, dye, problem.w_out[e]);  // [n, f]
    at::Tensor gate = (h * p).sum(1);
    if (problem.b_out.defined()) gate = gate + at::mv(dye, problem.b_out[e]);
    gradient.weight.narrow(0, begin, count).copy_(gate);
    const at::Tensor d_in = activate_backward(problem, in, masked(p * weight, mask));  // [n, m·f]
    // With bf16 products, the operands dy (as for p) and weight·h are rounded.
    const bool rounds = problem.hidden.scalar_type() == at::kBFloat16;
    gradient.w_out[e].copy_(rounds ? product(problem, dye.t(), h * weight)
                                   : at::mm((dye * weight).t(), h));
    gradient.w_in[e].copy_(product(problem, d_in.t(), xe));
    if (problem.b_in.defined()) gradient.b_in[e].copy_(d_in.sum(0));
    if (problem.b_out.defined()) gradient.b_out[e].copy_((dye * weight).sum(0));
    dx.narrow(0, begin, count).copy_(product(problem, d_in, problem.w_in[e]));
  }
  gradient.hidden = combine(dx, problem);
  return gradient;
}

}  // namespace penstock::ops::reference
