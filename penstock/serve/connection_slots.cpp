#include "penstock/serve/connection_slots.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace penstock::serve {

bool ConnectionSlots::mine(std::list<int>::const_iterator newcomer) const {
  return newcomer == waiting_.begin() && taken_ < count_;
}

ConnectionSlots::Time ConnectionSlots::end_of_waiting(Time came) const {
  const Time latest = came + times_.patience;
  const bool in_sight = !idle_.empty() || promised_ > 0 || taken_ < count_;
  return in_sight ? latest : std::min(latest, last_release_ + times_.patience);
}

std::optional<ConnectionSlot> ConnectionSlots::take() {
  std::unique_lock lock(mutex_);
  const auto me = waiting_.insert(waiting_.end(), 0);
  const Time came = std::chrono::steady_clock::now();
  while (!closed_ && !mine(me)) {
    const Time end = end_of_waiting(came);
    if (std::chrono::steady_clock::now() >= end) break;
    changed_.wait_until(lock, end);
  }
  const bool got = !closed_ && mine(me);
  waiting_.erase(me);
  if (got) ++taken_;
  changed_.notify_all();
  if (!got) return std::nullopt;
  return std::optional<ConnectionSlot>(std::in_place, *this);
}

void ConnectionSlots::resize(std::int64_t count) {
  const std::scoped_lock lock(mutex_);
  count_ = count;
  changed_.notify_all();
}

void ConnectionSlots::close() {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

ConnectionSlot::ConnectionSlot(ConnectionSlot&& other) noexcept
    : slots_(std::exchange(other.slots_, nullptr)),
      waits_since_(other.waits_since_),
      promised_(other.promised_) {}

ConnectionSlot::~ConnectionSlot() {
  if (!slots_) return;
  const std::scoped_lock lock(slots_->mutex_);
  forget_waiting();
  --slots_->taken_;
  slots_->last_release_ = std::chrono::steady_clock::now();
  slots_->changed_.notify_all();
}

void ConnectionSlot::wait(Time since) {
  const std::scoped_lock lock(slots_->mutex_);
  waits_since_ = slots_->idle_.insert(since);
  slots_->last_release_ = std::max(slots_->last_release_, since);
  slots_->changed_.notify_all();
}

bool ConnectionSlot::gives_way(Time now) {
  const std::scoped_lock lock(slots_->mutex_);
  if (promised_) return true;
  if (std::ssize(slots_->waiting_) <= slots_->promised_) return false;
  const Time since = **waits_since_;
  // Two connections that became idle at the same time may both count as the first.
  if (since != *slots_->idle_.begin()) return false;
  if (now - since < slots_->times_.grace) return false;
  forget_waiting();
  promised_ = true;
  ++slots_->promised_;
  return true;
}

void ConnectionSlot::work() {
  const std::scoped_lock lock(slots_->mutex_);
  forget_waiting();
  slots_->changed_.notify_all();
}

void ConnectionSlot::forget_waiting() {
  if (waits_since_) slots_->idle_.erase(*waits_since_);
  waits_since_.reset();
  if (promised_) --slots_->promised_;
  promised_ = false;
}

}  // namespace penstock::serve
