// A linear head with its cross-entropy in plain ATen, in chunks of rows.
#include "penstock/ops/linear_cross_entropy.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "penstock/ops/machine/precision.h"

namespace penstock::ops::reference {

HeadLoss linear_cross_entropy(const at::Tensor& hidden_in, const at::Tensor& w_in,
                              const at::Tensor& targets, HeadOptions options) {
  const at::Tensor hidden = hidden_in.to(w_in.scalar_type()), w = rounded_like(hidden_in, w_in);
  const std::int64_t rows = hidden.size(0);
  HeadLoss out{.losses = at::empty({rows}, hidden.options())};
  if (options.dhidden) out.dhidden = at::empty(hidden.sizes(), hidden.options());
  if (options.dw) out.dw = at::zeros(w.sizes(), w.options());
  for (std::int64_t from = 0; from < rows; from += options.chunk) {
    const std::int64_t to = std::min(rows, from + options.chunk);
    const at::Tensor x = hidden.slice(0, from, to);
    const at::Tensor target = targets.slice(0, from, to).unsqueeze(1);
    at::Tensor z = at::mm(x, w.t());                         // [chunk, V]
    const at::Tensor logsumexp = at::logsumexp(z, 1, true);  // [chunk, 1]
    out.losses.slice(0, from, to).copy_((logsumexp - z.gather(1, target)).squeeze(1));
    if (!options.dhidden && !options.dw) continue;
    z.sub_(logsumexp).exp_();
    z.scatter_add_(1, target, at::full(target.sizes(), -1, z.options()));
    z.div_(static_cast<double>(rows));
    z = rounded_like(hidden_in, z);
    if (options.dhidden) out.dhidden.slice(0, from, to).copy_(at::mm(z, w));
    if (options.dw) out.dw.addmm_(z.t(), x);
  }
  return out;
}

}  // namespace penstock::ops::reference
