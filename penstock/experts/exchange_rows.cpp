#include "penstock/experts/exchange_rows.h"

#include <ATen/core/ivalue.h>
#include <torch/autograd.h>
#include <torch/types.h>

namespace penstock {
namespace {

struct Way : torch::CustomClassHolder {
  Way(RowCounts sent_in, RowCounts received_in, dist::ProcessGroup group_in)
      : sent(std::move(sent_in)), received(std::move(received_in)), group(std::move(group_in)) {}
  RowCounts sent, received;
  dist::ProcessGroup group;
};

class ExchangeRows : public torch::autograd::Function<ExchangeRows> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& rows,
                            const c10::intrusive_ptr<Way>& way) {
    context->saved_data["way"] = c10::IValue::make_capsule(way);
    return way->group.all_to_all(rows.contiguous(), way->sent, way->received);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto held = context->saved_data["way"].toCapsule();
    const auto& way = static_cast<const Way&>(*held);
    return {way.group.all_to_all(grads[0].contiguous(), way.received, way.sent), {}};
  }
};

}  // namespace

at::Tensor exchange_rows(const at::Tensor& rows, const RowCounts& sent, const RowCounts& received,
                         const dist::ProcessGroup& group) {
  return ExchangeRows::apply(rows, c10::make_intrusive<Way>(sent, received, group));
}

}  // namespace penstock
