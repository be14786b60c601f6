// A JSON answer with long lists, which is written in pieces and is never in memory as a whole.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "penstock/serve/reply.h"

namespace penstock::serve {

struct JsonList {
  std::string before;      ///< the answer's text from the end of the list before, or from its start
  std::int64_t count = 0;  ///< number of elements
  std::function<std::string(std::int64_t)> element = {};  ///< the JSON of an element
};

class PiecewiseReply : public ReplyStream {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// @param after  the answer's text after the last list
  /// @param held  kept until the reply is destroyed; may be null
  PiecewiseReply(std::vector<JsonList> lists, std::string after, Time deadline,
                 std::shared_ptr<const void> held = {});
  /// Appends about 64 KiB. Throws Error after the deadline.
  bool next(std::string& out, std::chrono::milliseconds patience) override;

 private:
  std::shared_ptr<const void> held_;  // first: it outlives the lists
  std::vector<JsonList> lists_;
  std::string after_;
  Time deadline_;
  std::size_t list_ = 0;  // the list and the element that come next
  std::int64_t element_ = 0;
};

}  // namespace penstock::serve
