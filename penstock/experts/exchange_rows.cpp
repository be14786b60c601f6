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

struct Exchange : torch::CustomClassHolder {
  Exchange(RowCounts sent_in, RowCounts received_in, dist::ProcessGroup group_in)
      : sent(std::move(sent_in)), received(std::move(received_in)), group(std::move(group_in)) {}
  RowCounts sent, received;
  dist::ProcessGroup group;
  std::function<at::Tensor()> pending;

  at::Tensor wait() { return std::exchange(pending, nullptr)(); }
};

/// Returns the Exchange that the operation's forward pass saved.
Exchange& exchange_of(AutogradContext* context) {
  return static_cast<Exchange&>(*context->saved_data["exchange"].toCapsule());
}

/// Starts the exchange. The backward pass waits for the exchange of the gradients. Returns a token:
/// an empty tensor that stands for the rows that travel.
class Start : public torch::autograd::Function<Start> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& rows,
                            const c10::intrusive_ptr<Exchange>& exchange) {
    context->saved_data["exchange"] = c10::IValue::make_capsule(exchange);
    exchange->pending =
        exchange->group.start_all_to_all(rows.contiguous(), exchange->sent, exchange->received);
    return rows.new_empty({0});
  }
  static variable_list backward(AutogradContext* context, const variable_list&) {
    return {exchange_of(context).wait(), {}};
  }
};

/// Waits for the rows. The backward pass starts the exchange of their gradients.
class Finish : public torch::autograd::Function<Finish> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& /*token*/,
                            const c10::intrusive_ptr<Exchange>& exchange) {
    context->saved_data["exchange"] = c10::IValue::make_capsule(exchange);
    return exchange->wait();
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    Exchange& exchange = exchange_of(context);
    exchange.pending =
        exchange.group.start_all_to_all(grads[0].contiguous(), exchange.received, exchange.sent);
    return {grads[0].new_empty({0}), {}};
  }
};

}  // namespace

at::Tensor exchange_rows(const at::Tensor& rows, const RowCounts& sent, const RowCounts& received,
                         const dist::ProcessGroup& group, const std::function<void()>& meanwhile) {
  const auto exchange = c10::make_intrusive<Exchange>(sent, received, group);
  const at::Tensor token = ops::recorded<Start>("row exchange", rows, exchange);
  if (meanwhile) meanwhile();
  return ops::recorded<Finish>("row exchange", token, exchange);
}

}  // namespace penstock
