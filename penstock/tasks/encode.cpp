#include "penstock/tasks/encode.h"

#include "penstock/base/error.h"
#include "penstock/data/text/unicode.h"
#include "penstock/data/vocabulary.h"
#include "penstock/tasks/text.h"

namespace penstock::tasks {

RequestEncoder::RequestEncoder(const Tokenizer& tokenizer, std::int64_t window)
    : tokenizer_(tokenizer),
      window_(static_cast<std::size_t>(window)),
      prefix_(tokenizer.end_of_document()) {
  PENSTOCK_CHECK(window > 0, "the model names no context length; give options.sequence_length");
  const auto vocabulary = tokenizer.vocabulary();
  if (!vocabulary) return;
  if (vocabulary->add_bos) bos_ = vocabulary->bos;
  if (vocabulary->bos >= 0)
    prefix_ = vocabulary->bos;
  else if (vocabulary->eos >= 0)
    prefix_ = vocabulary->eos;
}

std::vector<TokenId> RequestEncoder::begun(std::string_view text) const {
  std::vector<TokenId> out;
  if (bos_ >= 0) out.push_back(bos_);
  tokenizer_.encode(text, out);
  return out;
}

TokenRequest RequestEncoder::continuation(std::string context, std::string continuation) const {
  const std::size_t kept = right_stripped(context).size();
  continuation.insert(0, context, kept);
  context.resize(kept);
  TokenRequest out;
  if (context.empty()) {
    PENSTOCK_CHECK(prefix_ >= 0,
                   "the context is empty, and the tokenizer has no token that a text begins or "
                   "ends with; nothing could be scored after it");
    out.ids = tokenizer_.encode(continuation);
    if (out.ids.empty() || out.ids.front() != prefix_) out.ids.insert(out.ids.begin(), prefix_);
    out.scored_from = 1;
  } else {
    out.ids = begun(context + continuation);
    out.scored_from = begun(context).size();
  }
  PENSTOCK_CHECK(out.scored_from < out.ids.size(), "the continuation '", continuation,
                 "' adds no token to its context; there is nothing to score");
  return cut(std::move(out));
}

TokenRequest RequestEncoder::cut(TokenRequest request) const {
  const std::size_t scored = request.ids.size() - request.scored_from;
  PENSTOCK_CHECK(scored <= window_, "a continuation of ", scored,
                 " tokens is longer than the model's window of ", window_,
                 "; give options.sequence_length = ", scored, " or more");
  if (request.ids.size() > window_ + 1) {
    const std::size_t cut = request.ids.size() - (window_ + 1);
    request.ids.erase(request.ids.begin(), request.ids.begin() + static_cast<std::ptrdiff_t>(cut));
    request.scored_from -= cut;
  }
  return request;
}

TokenRequest RequestEncoder::whole(const TextRequest& request, Score score) const {
  const std::string text = request.context + request.continuation;
  TokenRequest out{.ids = begun(text)};
  if (out.ids.size() > window_) out.ids.resize(window_);
  if (score == Score::kRest)
    out.scored_from = begun(replaced(text, request.continuation, "")).size();
  if (score == Score::kRestByCount)
    out.scored_from = tokenizer_.encode(request.continuation).size();
  PENSTOCK_CHECK(out.scored_from >= 1 && out.scored_from < out.ids.size(), "of a text of ",
                 out.ids.size(), " tokens (window ", window_,
                 ") none is left to score behind the first ", out.scored_from);
  return out;
}

TokenRequest RequestEncoder::encode(const TextRequest& request, Score score) const {
  if (score != Score::kContinuation) return whole(request, score);
  return continuation(request.context, request.continuation);
}

std::vector<TokenRequest> RequestEncoder::encode_item(const Item& item, Score score) const {
  std::vector<TokenRequest> out;
  try {
    for (const TextRequest& request : item.requests) out.push_back(encode(request, score));
  } catch (const Error& error) {
    fail(item.where, ": ", error.what());
  }
  return out;
}

std::vector<TokenId> RequestEncoder::encode_prompt(const Item& item, TaskProtocol protocol,
                                                   std::int64_t max_tokens) const {
  const std::int64_t room = protocol == TaskProtocol::kLmEval ? max_tokens : 1;
  const auto kept = static_cast<std::ptrdiff_t>(window_) - room;
  PENSTOCK_CHECK(kept > 0, item.where, ": the model's window of ", window_,
                 " tokens has no room for a question beside an answer of ", room,
                 "; give a longer options.sequence_length");
  std::vector<TokenId> out = begun(item.requests.front().context);
  if (out.empty() && prefix_ >= 0) out.push_back(prefix_);
  PENSTOCK_CHECK(!out.empty(), item.where, ": the context has no tokens");
  const std::ptrdiff_t excess = std::ssize(out) - kept;
  if (excess > 0 && protocol == TaskProtocol::kLmEval) out.erase(out.begin(), out.begin() + excess);
  if (excess > 0 && protocol != TaskProtocol::kLmEval) out.resize(static_cast<std::size_t>(kept));
  return out;
}

std::int64_t usual_window(const ModelConfig& config) {
  return config.context + (config.has_memory() ? config.xl.memory : 0);
}

}  // namespace penstock::tasks
