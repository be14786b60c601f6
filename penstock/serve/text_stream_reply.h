// An answer of texts while they are written: as server-sent events, or as one JSON object at the
// end.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "penstock/serve/api.h"

namespace penstock::serve {

class TextReply : public ReplyStream {
 public:
  struct Form {
    bool stream = false, include_usage = false;
    std::chrono::steady_clock::time_point begun, deadline;
  };
  /// `metrics` outlives it.
  TextReply(std::unique_ptr<Ticket> ticket, ReplyWriter writer, Form form, Metrics& metrics);
  ~TextReply() override;
  bool next(std::string& out, std::chrono::milliseconds patience) override;
  /// Waits for the first event of an answer that is not a stream.
  /// Throws RequestError: 500 where it failed, 504 where the time was over before.
  void wait_for_first();

 private:
  void take(const AnswerEvent& event, std::string& out);
  void finish(std::string& out);

  std::unique_ptr<Ticket> ticket_;
  ReplyWriter writer_;
  Form form_;
  Metrics& metrics_;
  std::vector<AnswerEvent> first_;
  std::string failure_;
  bool begun_ = false, first_seen_ = false, late_ = false, over_ = false;
};

}  // namespace penstock::serve
