#include "penstock/serve/places.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace penstock::serve {

bool Places::mine(std::list<int>::const_iterator newcomer) const {
  return newcomer == newcomers_.begin() && taken_ < count_;
}

Places::Time Places::end_of_waiting(Time came) const {
  const Time latest = came + times_.patience;
  const bool in_sight = !idle_.empty() || promised_ > 0 || taken_ < count_;
  return in_sight ? latest : std::min(latest, seen_ + times_.patience);
}

std::optional<Place> Places::take() {
  std::unique_lock lock(mutex_);
  const auto me = newcomers_.insert(newcomers_.end(), 0);
  const Time came = std::chrono::steady_clock::now();
  while (!closed_ && !mine(me)) {
    const Time end = end_of_waiting(came);
    if (std::chrono::steady_clock::now() >= end) break;
    changed_.wait_until(lock, end);
  }
  const bool got = !closed_ && mine(me);
  newcomers_.erase(me);
  if (got) ++taken_;
  changed_.notify_all();
  if (!got) return std::nullopt;
  return std::optional<Place>(std::in_place, *this);
}

void Places::resize(std::int64_t count) {
  const std::scoped_lock lock(mutex_);
  count_ = count;
  changed_.notify_all();
}

void Places::close() {
  const std::scoped_lock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

Place::Place(Place&& other) noexcept
    : places_(std::exchange(other.places_, nullptr)),
      waits_since_(other.waits_since_),
      promised_(other.promised_) {}

Place::~Place() {
  if (!places_) return;
  const std::scoped_lock lock(places_->mutex_);
  forget_waiting();
  --places_->taken_;
  places_->seen_ = std::chrono::steady_clock::now();
  places_->changed_.notify_all();
}

void Place::wait(Time now) {
  const std::scoped_lock lock(places_->mutex_);
  waits_since_ = places_->idle_.insert(now);
  places_->seen_ = now;
  places_->changed_.notify_all();
}

bool Place::gives_way(Time now) {
  const std::scoped_lock lock(places_->mutex_);
  if (promised_) return true;
  if (std::ssize(places_->newcomers_) <= places_->promised_) return false;
  const Time since = **waits_since_;
  // Two connections that became idle at the same time may both count as the first.
  if (since != *places_->idle_.begin()) return false;
  if (now - since < places_->times_.grace) return false;
  forget_waiting();
  promised_ = true;
  ++places_->promised_;
  return true;
}

void Place::work() {
  const std::scoped_lock lock(places_->mutex_);
  forget_waiting();
  places_->changed_.notify_all();
}

void Place::forget_waiting() {
  if (waits_since_) places_->idle_.erase(*waits_since_);
  waits_since_.reset();
  if (promised_) --places_->promised_;
  promised_ = false;
}

}  // namespace penstock::serve
