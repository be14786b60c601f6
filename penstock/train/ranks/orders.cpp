#include "penstock/train/ranks/orders.h"

#include <torch/types.h>

#include "penstock/base/error.h"

namespace penstock {

Leader::~Leader() {
  if (!begun_ || ended_) return;
  try {
    give(Order::failed);
  } catch (const Error&) {
    // The other ranks are gone too.
  }
}

void Leader::give(Order order) {
  if (group_.size() == 1 || group_.rank() > 0) return;
  group_.broadcast(at::full({1}, static_cast<std::int64_t>(order), at::kLong));
  last_ = Clock::now();
}

void Leader::keep_waiting() {
  if (Clock::now() - last_ > std::chrono::seconds(1)) give(Order::wait);
}

void Leader::end(RunOutcome outcome) {
  give(outcome == RunOutcome::finished ? Order::finished : Order::interrupted);
  ended_ = true;
}

Order next_order(const dist::ProcessGroup& group) {
  const at::Tensor order = at::zeros({1}, at::kLong);
  group.broadcast(order);
  return static_cast<Order>(order.item<std::int64_t>());
}

std::string next_text(const dist::ProcessGroup& group) { return group.broadcast_bytes(""); }

bool all_done(const dist::ProcessGroup& group, bool mine) {
  const at::Tensor left = at::full({1}, mine ? 0 : 1, at::kLong);
  group.all_reduce(left, dist::Reduction::max);
  return left.item<std::int64_t>() == 0;
}

}  // namespace penstock
