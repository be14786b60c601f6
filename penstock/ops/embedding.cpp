// Row lookup: checks and gradient.
#include <torch/torch.h>

#include "penstock/base/error.h"
#include "penstock/ops/check.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/reference/decoder.h"

namespace penstock::ops {
namespace {

class Embedding : public torch::autograd::Function<Embedding> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& weight,
                            const at::Tensor& ids) {
    ctx->save_for_backward({ids});
    ctx->saved_data["vocabulary"] = weight.size(0);
    return reference::embedding(weight, ids);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    return {reference::embedding_backward(grads[0], ctx->get_saved_variables()[0],
                                          ctx->saved_data["vocabulary"].toInt()),
            {}};
  }
};

}  // namespace

at::Tensor embedding(const at::Tensor& weight, const at::Tensor& ids) {
  PENSTOCK_CHECK(weight.dim() == 2 && weight.is_floating_point(),
                 "[embedding] weight must be floating [V, d], not ", weight.sizes());
  PENSTOCK_CHECK(ids.scalar_type() == at::kLong, "[embedding] ids must be i64, not ",
                 ids.scalar_type());
  check_index_range(ids, weight.size(0), "embedding", "id");
  return Embedding::apply(weight, ids);
}

}  // namespace penstock::ops
