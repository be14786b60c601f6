// AdamW and the global norm: checks, and the sweep over tensors.
#include <torch/torch.h>

#include <cmath>

#include "penstock/base/error.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/reference/decoder.h"

namespace penstock::ops {

void adamw_step(const std::vector<at::Tensor>& weights, const std::vector<at::Tensor>& grads,
                const std::vector<at::Tensor>& m, const std::vector<at::Tensor>& v,
                const std::vector<double>& decay, const AdamWOptions& options) {
  const std::size_t n = weights.size();
  PENSTOCK_CHECK(grads.size() == n && m.size() == n && v.size() == n && decay.size() == n,
                 "[adamw_step] lists differ in length: ", n, " weights, ", grads.size(), " gradients, ",
                 m.size(), " and ", v.size(), " moments, ", decay.size(), " decays");
  PENSTOCK_CHECK(options.step >= 1, "[adamw_step] steps count from 1, not ", options.step);
  for (std::size_t i = 0; i < n; ++i)
    PENSTOCK_CHECK(grads[i].sizes() == weights[i].sizes() && m[i].sizes() == weights[i].sizes() &&
                       v[i].sizes() == weights[i].sizes(),
                   "[adamw_step] tensor ", i, ": weight ", weights[i].sizes(), ", gradient ",
                   grads[i].sizes(), " and moments ", m[i].sizes(), ", ", v[i].sizes(), " differ");
  for (std::size_t i = 0; i < n; ++i)
    reference::adamw_step(weights[i], grads[i], m[i], v[i], decay[i], options);
}

double global_norm(const std::vector<at::Tensor>& tensors) {
  double sum = 0;
  for (const auto& tensor : tensors) sum += reference::sum_of_squares(tensor);
  return std::sqrt(sum);
}

}  // namespace penstock::ops
