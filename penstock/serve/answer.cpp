#include "penstock/serve/answer.h"

#include <utility>

namespace penstock::serve {

void Answer::add(AnswerEvent event) {
  {
    const std::scoped_lock lock(mutex_);
    if (!event.token && !event.prompt_scores) --open_;
    events_.push_back(std::move(event));
  }
  event_added_.notify_one();
}

std::vector<AnswerEvent> Answer::take(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  event_added_.wait_for(lock, patience, [&] { return !events_.empty() || open_ == 0; });
  std::vector<AnswerEvent> out(std::make_move_iterator(events_.begin()),
                               std::make_move_iterator(events_.end()));
  events_.clear();
  return out;
}

bool Answer::over() const {
  const std::scoped_lock lock(mutex_);
  return open_ == 0 && events_.empty();
}

}  // namespace penstock::serve
