#include "penstock/ops/product_tap.h"

#include <ATen/ATen.h>

#include <utility>

#include "penstock/base/error.h"
#include "penstock/ops/expert_problem.h"
#include "penstock/ops/ops.h"

namespace penstock::ops {
namespace {

thread_local const ProductTap::Observer* tap = nullptr;

/// The rows that one expert's output matrix multiplies.  @param rows [n, d].  @return [n, f]
at::Tensor inner_rows(const ExpertProblem& problem, std::int64_t expert, const at::Tensor& rows) {
  // Not ops::linear, which would show its rows to the tap.
  at::Tensor in = at::matmul(rows, problem.w_in[expert].t());
  if (problem.b_in.defined()) in = in + problem.b_in[expert];
  return problem.activation == Activation::relu ? in.relu() : swiglu(in);
}

}  // namespace

ProductTap::ProductTap(Observer observer) : observer_(std::move(observer)) {
  PENSTOCK_ASSERT(!tap && observer_);
  tap = &observer_;
}
ProductTap::~ProductTap() { tap = nullptr; }

void show_product(const at::Tensor& rows, const at::Tensor& weight) {
  if (tap) (*tap)(rows, weight, 0);
}

void show_products(const ExpertProblem& problem) {
  if (!tap) return;
  const auto* const offsets = problem.offsets.data_ptr<std::int64_t>();
  for (std::int64_t e = 0; e < problem.experts(); ++e) {
    const std::int64_t count = offsets[e + 1] - offsets[e];
    if (count == 0) continue;
    const at::Tensor rows =
        problem.hidden.index_select(0, problem.token.narrow(0, offsets[e], count))
            .to(problem.w_in.scalar_type());
    (*tap)(rows, problem.w_in, e);
    (*tap)(inner_rows(problem, e, rows), problem.w_out, e);
  }
}

}  // namespace penstock::ops
