#include "penstock/infer/draft.h"

#include <algorithm>
#include <span>

#include "penstock/base/stopwatch.h"

namespace penstock {

Draft::Draft(const Job& job, std::int64_t capacity) : job_(job), max_length_(capacity) {
  const std::shared_ptr<LanguageModel>& model = job.options.draft;
  if (model->config().context > 0) max_length_ = std::min(max_length_, model->config().context);
  session_ = make_rewindable_session(model, {.capacity = std::max<std::int64_t>(1, max_length_),
                                             .seed = job.options.sampling.seed});
}

void Draft::begin(const GeneratedText& text) {
  read_.clear();
  if (std::ssize(text.prompt()) > max_length_) return;
  session_->begin(0, text.prompt());
  read_ = text.prompt();
}

std::vector<TokenId> Draft::propose(const GeneratedText& text, std::int64_t count) {
  std::vector<TokenId> out;
  // `unread` points into this vector, so it must not reallocate.
  out.reserve(static_cast<std::size_t>(count));
  if (read_.empty()) return out;
  // Removes the proposals that the text did not take.
  const std::size_t prompt = text.prompt().size();
  const std::vector<TokenId>& written = text.tokens();
  std::size_t common = 0;
  while (prompt + common < read_.size() && common < written.size() &&
         read_[prompt + common] == written[common])
    ++common;
  std::span<const TokenId> unread = std::span(written).subspan(common);
  read_.resize(prompt + common);
  session_->rewind(0, std::ssize(read_));
  while (std::ssize(out) < count && std::ssize(read_) + std::ssize(unread) <= max_length_) {
    const at::Tensor logits = session_->read(0, unread);
    read_.insert(read_.end(), unread.begin(), unread.end());
    out.push_back(text.choose(row_of(logits, std::ssize(unread) - 1, job_), std::ssize(out)));
    unread = {&out.back(), 1};
  }
  return out;
}

bool generate_drafted(RewindableSession& session, Draft& draft, GeneratedText& text, const Job& job,
                      GenerationSpeed& speed) {
  if (job.interrupted()) return false;
  Stopwatch watch;
  at::Tensor logits = session.begin(0, text.prompt());
  draft.begin(text);
  speed.prompt_seconds += watch.seconds();
  speed.prompt_tokens += std::ssize(text.prompt());
  bool goes_on = text.take(row_of(logits, 0, job));
  while (goes_on) {
    if (job.interrupted()) {
      text.finish(Finish::interrupted);
      return false;
    }
    watch = Stopwatch();
    const std::int64_t held = text.length() - 1;  // tokens that the model has read
    std::vector<TokenId> tokens = {text.tokens().back()};
    // The last token that the text may get is never read.
    for (const TokenId token :
         draft.propose(text, std::min(job.options.draft_tokens, text.left() - 1)))
      tokens.push_back(token);
    logits = session.read(0, tokens);
    speed.drafted_tokens += std::ssize(tokens) - 1;
    std::size_t taken = 0;
    do {
      goes_on = text.take(row_of(logits, static_cast<std::int64_t>(taken++), job));
    } while (goes_on && taken < tokens.size() && text.tokens().back() == tokens[taken]);
    speed.accepted_tokens += static_cast<std::int64_t>(taken) - 1;
    speed.steps_tokens += static_cast<std::int64_t>(taken);
    session.rewind(0, held + static_cast<std::int64_t>(taken));
    speed.steps_seconds += watch.seconds();
  }
  return true;
}

}  // namespace penstock
