#include "penstock/experts/exchange_rows.h"

#include <ATen/core/ivalue.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <utility>

#include "penstock/ops/second_derivative.h"

namespace penstock {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Way : torch::CustomClassHolder {
  Way(RowCounts sent_in, RowCounts received_in, dist::ProcessGroup group_in)
      : sent(std::move(sent_in)), received(std::move(received_in)), group(std::move(group_in)) {}
  RowCounts sent, received;
  dist::ProcessGroup group;
  std::function<at::Tensor()> under_way;

  at::Tensor arrived() { return std::exchange(under_way, nullptr)(); }
};

/// Returns the Way that the operation's forward pass saved.
Way& way_of(AutogradContext* context) {
  return static_cast<Way&>(*context->saved_data["way"].toCapsule());
}

/// Starts the exchange. The backward pass waits for the exchange of the gradients. Returns a token:
/// an empty tensor that stands for the rows that travel.
class Start : public torch::autograd::Function<Start> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows,
                            const c10::intrusive_ptr<Way>& way) {
    context->saved_data["way"] = c10::IValue::make_capsule(way);
    way->under_way = way->group.start_all_to_all(rows.contiguous(), way->sent, way->received);
    return rows.new_empty({0});
  }
  static variable_list backward(AutogradContext* context, const variable_list&) {
    return {way_of(context).arrived(), {}};
  }
};

/// Waits for the rows. The backward pass starts the exchange of their gradients.
class Finish : public torch::autograd::Function<Finish> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& /*token*/,
                            const c10::intrusive_ptr<Way>& way) {
    context->saved_data["way"] = c10::IValue::make_capsule(way);
    return way->arrived();
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    Way& way = way_of(context);
    way.under_way = way.group.start_all_to_all(grads[0].contiguous(), way.received, way.sent);
    return {grads[0].new_empty({0}), {}};
  }
};

}  // namespace

at::Tensor exchange_rows(const at::Tensor& rows, const RowCounts& sent, const RowCounts& received,
                         const dist::ProcessGroup& group, const std::function<void()>& meanwhile) {
  const auto way = c10::make_intrusive<Way>(sent, received, group);
  const at::Tensor token = ops::recorded<Start>("row exchange", rows, way);
  if (meanwhile) meanwhile();
  return ops::recorded<Finish>("row exchange", token, way);
}

}  // namespace penstock
