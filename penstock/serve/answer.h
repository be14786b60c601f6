// What became of the texts of one request, handed from the thread that writes them to the one that
// talks to the client.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "penstock/infer/batcher.h"

namespace penstock::serve {

struct AnswerEvent {
  std::size_t text = 0;               ///< among the request's
  std::optional<WrittenToken> token;  ///< one that came;
  std::optional<Finish> finish;       ///< or the end, with
  std::string rest;                   ///< text that had waited;
  std::string failure;                ///< or why there is none
};

/// All of one thread adds, all of another takes.
class Answer {
 public:
  explicit Answer(std::size_t texts) : open_(texts) {}
  void add(AnswerEvent event);
  /// What has come, after waiting up to `patience` where that is nothing.
  std::vector<AnswerEvent> take(std::chrono::milliseconds patience);
  /// All texts have ended, and all has been taken.
  bool over() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::deque<AnswerEvent> events_;
  std::size_t open_;  // texts that have not ended
};

}  // namespace penstock::serve
