#include "penstock/serve/answer.h"

#include <utility>

#include "penstock/infer/token_routing.h"
#include "penstock/infer/token_score.h"

namespace penstock::serve {
namespace {

/// The memory that an event takes, nearly.
std::size_t bytes_of(const AnswerEvent& event) {
  std::size_t out = sizeof(AnswerEvent) + event.rest.size() + event.failure.size();
  if (event.prompt_scores)
    for (const TokenScore& score : *event.prompt_scores)
      out += sizeof(TokenScore) + score.likeliest.size() * sizeof(LikelyToken);
  if (!event.token) return out;
  out += event.token->piece.size() + event.token->score.likeliest.size() * sizeof(LikelyToken);
  for (const LayerRouting& layer : event.token->routing)
    out += sizeof(LayerRouting) + layer.experts.size() * sizeof(ExpertShare) +
           layer.logits.size() * sizeof(float);
  return out;
}

}  // namespace

bool Answer::add(AnswerEvent event) {
  bool fits = false;
  {
    const std::scoped_lock lock(mutex_);
    if (!event.token && !event.prompt_scores) --open_;
    bytes_ += bytes_of(event);
    fits = bytes_ <= most_bytes_;
    events_.push_back(std::move(event));
  }
  event_added_.notify_one();
  return fits;
}

std::vector<AnswerEvent> Answer::take(std::chrono::milliseconds patience, std::size_t bytes) {
  std::unique_lock lock(mutex_);
  event_added_.wait_for(lock, patience, [&] { return !events_.empty() || open_ == 0; });
  std::vector<AnswerEvent> out;
  for (std::size_t taken = 0; !events_.empty() && taken < bytes;) {
    const std::size_t size = bytes_of(events_.front());
    taken += size;
    bytes_ -= size;
    out.push_back(std::move(events_.front()));
    events_.pop_front();
  }
  return out;
}

bool Answer::has_events() const {
  const std::scoped_lock lock(mutex_);
  return !events_.empty();
}

bool Answer::over() const {
  const std::scoped_lock lock(mutex_);
  return open_ == 0 && events_.empty();
}

}  // namespace penstock::serve
