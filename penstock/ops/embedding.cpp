// Row lookup: checks, implementations, gradient, dispatcher registration.
#include "penstock/ops/embedding.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "penstock/ops/check.h"
#include "penstock/ops/implementation.h"
#include "penstock/ops/ops.h"
#include "penstock/ops/second_derivative.h"

namespace penstock::ops {
namespace {

using Forward = at::Tensor(const at::Tensor&, const at::Tensor&);
using Backward = at::Tensor(const at::Tensor&, const at::Tensor&, std::int64_t);

/// The bytes of the rows that `ids` names, read and written, and of `ids`.
Cost rows_cost(const at::Tensor& weight, const at::Tensor& ids) {
  const double row = static_cast<double>(weight.size(1) * weight.element_size());
  return {.bytes = bytes_of(ids) + 2 * row * static_cast<double>(ids.numel())};
}

const Implementations<Forward>& forward_list() {
  static const Implementations<Forward> list("embedding",
                                             {{"cpu",
                                               [](const at::Tensor& weight, const at::Tensor& ids) {
                                                 return cpu::declines({weight, ids});
                                               },
                                               cpu::embedding},
                                              {"reference", nullptr, reference::embedding}},
                                             rows_cost);
  return list;
}

const Implementations<Backward>& backward_list() {
  static const Implementations<Backward> list(
      "embedding.backward", {{"cpu",
                              [](const at::Tensor& grad, const at::Tensor& ids, std::int64_t) {
                                return cpu::declines({grad, ids});
                              },
                              cpu::embedding_backward},
                             {"reference", nullptr, reference::embedding_backward}});
  return list;
}

at::Tensor forward_kernel(const at::Tensor& weight, const at::Tensor& ids) {
  PENSTOCK_CHECK(weight.dim() == 2, "[embedding] weight must be [V, d], not ", weight.sizes());
  check_same_kind({weight}, "embedding");
  PENSTOCK_CHECK(ids.scalar_type() == at::kLong && ids.device() == weight.device(),
                 "[embedding] ids must be i64 on the weight's device, not ", describe(ids));
  check_index_range(ids, weight.size(0), "embedding", "id");
  return forward_list().run(weight, ids);
}

class Embedding : public torch::autograd::Function<Embedding> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& weight,
                            const at::Tensor& ids) {
    context->save_for_backward({ids});
    context->saved_data["vocabulary"] = weight.size(0);
    const at::AutoDispatchBelowADInplaceOrView below;
    return forward_kernel(weight, ids);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    return {backward_list().run(grads[0], context->get_saved_variables()[0],
                                context->saved_data["vocabulary"].toInt()),
            {}};
  }
};

at::Tensor autograd_kernel(const at::Tensor& weight, const at::Tensor& ids) {
  if (needs_gradient(weight)) return recorded<Embedding>("embedding", weight, ids);
  const at::AutoDispatchBelowADInplaceOrView below;
  return forward_kernel(weight, ids);
}

}  // namespace

at::Tensor embedding(const at::Tensor& weight, const at::Tensor& ids) {
  static const auto handle =
      dispatcher_handle<at::Tensor(const at::Tensor&, const at::Tensor&)>("embedding");
  return handle.call(weight, ids);
}

}  // namespace penstock::ops

TORCH_LIBRARY_IMPL(penstock, CPU, m) { m.impl("embedding", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, CUDA, m) { m.impl("embedding", penstock::ops::forward_kernel); }
TORCH_LIBRARY_IMPL(penstock, Autograd, m) { m.impl("embedding", penstock::ops::autograd_kernel); }
