// Row lookup in plain ATen. ATen's backward pass divides the vocabulary over threads, not the rows,
// so its bits are the same in every run.
#include "penstock/ops/embedding.h"

#include <ATen/ATen.h>

namespace penstock::ops::reference {

at::Tensor embedding(const at::Tensor& weight, const at::Tensor& ids) {
  auto shape = ids.sizes().vec();
  shape.push_back(weight.size(1));
  return weight.index_select(0, ids.reshape({-1})).reshape(shape);
}

at::Tensor embedding_backward(const at::Tensor& grad, const at::Tensor& ids,
                              std::int64_t vocabulary) {
  return at::embedding_dense_backward(grad.contiguous(), ids.contiguous(), vocabulary,
                                      /*padding_idx=*/-1, /*scale_grad_by_freq=*/false);
}

}  // namespace penstock::ops::reference
