#include "penstock/serve/text_stream_reply.h"

#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/stopwatch.h"
#include "penstock/serve/request_error.h"

namespace penstock::serve {
namespace {

using Clock = std::chrono::steady_clock;

/// The memory of the events that become one part of an answer. Their text takes several times as
/// much.
constexpr std::size_t kPartBytes = 32768;

std::string as_event(const std::string& data) { return "data: " + data + "\n\n"; }

}  // namespace

TextReply::TextReply(std::unique_ptr<Ticket> ticket, ReplyWriter writer, Form form,
                     Metrics& metrics)
    : ticket_(std::move(ticket)), writer_(std::move(writer)), form_(form), metrics_(metrics) {}

TextReply::~TextReply() {
  if (!over_) metrics_.left();
}

void TextReply::take(const AnswerEvent& event, std::string& out) {
  if ((event.token || event.prompt_scores) && !std::exchange(first_seen_, true))
    metrics_.first_token_after(seconds_since(form_.begun));
  if (!event.failure.empty()) failure_ = writer_.failure(event);
  if (!form_.stream) return writer_.keep(event);
  for (const std::string& chunk : writer_.chunks(event)) out += as_event(chunk);
}

void TextReply::finish_whole(std::string& out) {
  if (!failure_.empty())
    out = error_body(status_ = 500, failure_);
  else if (late_ && !first_seen_)
    out = error_body(status_ = 504, "no token came within the time limit");
  else
    out = writer_.whole();
  metrics_.answered(form_.path, status_);
}

void TextReply::finish(std::string& out) {
  over_ = true;
  metrics_.whole_after(seconds_since(form_.begun));
  if (!form_.stream) return finish_whole(out);
  if (const std::string usage = writer_.usage_chunk(); !usage.empty()) out += as_event(usage);
  out += as_event("[DONE]");
}

bool TextReply::next(std::string& out, std::chrono::milliseconds patience) {
  if (over_) return false;
  if (!std::exchange(begun_, true) && form_.stream)
    for (const std::string& chunk : writer_.first_chunks()) out += as_event(chunk);
  Answer& answer = ticket_->answer();
  for (const AnswerEvent& event : answer.take(patience, kPartBytes)) take(event, out);
  const auto now = Clock::now();
  if (now > form_.deadline && !std::exchange(late_, true)) ticket_->cancel();
  PENSTOCK_CHECK(!form_.stream || now < form_.reading_end || !answer.has_events(),
                 "the client did not read its stream within the time limit");
  if (!answer.over()) return true;
  finish(out);
  return false;
}

}  // namespace penstock::serve
