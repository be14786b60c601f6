// An answer with texts during their generation: server-sent events, or one JSON object at the end.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "penstock/serve/metrics.h"
#include "penstock/serve/reply.h"
#include "penstock/serve/reply_json.h"
#include "penstock/serve/service.h"

namespace penstock::serve {

class TextReply : public ReplyStream {
 public:
  struct Form {
    std::string path;  ///< the request's path, as the metrics count it
    bool stream = false;
    std::chrono::steady_clock::time_point begun, deadline;
    std::chrono::steady_clock::time_point reading_end;  ///< of a stream's client
  };
  /// REQUIRES: `metrics` outlives the reply.
  TextReply(std::unique_ptr<Ticket> ticket, ReplyWriter writer, Form form, Metrics& metrics);
  ~TextReply() override;
  /// Throws Error for a client that has not read its stream when the time for it is over.
  bool next(std::string& out, std::chrono::milliseconds patience) override;
  /// 500 if the model failed, 504 if the deadline passed before the first token, else 200.
  int status() const override { return status_; }

 private:
  void take(const AnswerEvent& event, std::string& out);
  void finish(std::string& out);
  void finish_whole(std::string& out);

  std::unique_ptr<Ticket> ticket_;
  ReplyWriter writer_;
  Form form_;
  Metrics& metrics_;
  std::string failure_;
  int status_ = 200;
  bool begun_ = false, first_seen_ = false, late_ = false, over_ = false;
};

}  // namespace penstock::serve
