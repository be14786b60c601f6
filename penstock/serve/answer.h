// The events of one request's texts. The model's thread adds events; the connection's thread takes
// them. A client that reads slowly leaves events here.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "penstock/infer/batcher.h"

namespace penstock::serve {

/// Only one of prompt_scores, token, finish and failure is set.
struct AnswerEvent {
  std::size_t text = 0;                                  ///< index among the request's texts
  std::optional<std::vector<TokenScore>> prompt_scores;  ///< set when the prompt has been read
  std::optional<GeneratedToken> token;                   ///< a new token
  std::optional<Finish> finish;                          ///< the end of the text
  std::string rest;                                      ///< with `finish`: held-back text
  std::string failure;                                   ///< the reason for a failure
};

/// Thread-safe for one thread that adds and one that takes.
class Answer {
 public:
  /// @param most_bytes  the limit of the events that are not taken
  Answer(std::size_t texts, std::size_t most_bytes) : most_bytes_(most_bytes), open_(texts) {}
  /// @return whether the events that are not taken keep the limit
  bool add(AnswerEvent event);
  /// The oldest events: as many as reach `bytes`, or all. Waits up to `patience` if there are none.
  std::vector<AnswerEvent> take(std::chrono::milliseconds patience, std::size_t bytes);
  /// Whether events wait to be taken.
  bool has_events() const;
  /// Whether all texts have ended and all events were taken.
  bool over() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable event_added_;
  std::deque<AnswerEvent> events_;
  const std::size_t most_bytes_;
  std::size_t bytes_ = 0;  // of `events_`
  std::size_t open_;       // texts that have not ended
};

}  // namespace penstock::serve
