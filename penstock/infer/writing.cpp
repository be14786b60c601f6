#include "penstock/infer/writing.h"

#include <algorithm>

namespace penstock {

Writing::Writing(Completion& completion, const Job& job)
    : out_(completion),
      job_(job),
      stream_(job.options.stop),
      length_(std::ssize(job.prompts[completion.prompt])) {}

std::int64_t Writing::left() const {
  const std::int64_t wanted = job_.options.max_tokens - std::ssize(out_.tokens);
  // The token behind the context's last is still chosen.
  return job_.context > 0 ? std::min(wanted, job_.context + 1 - length_) : wanted;
}

TokenId Writing::choose(std::span<const float> logits, std::int64_t ahead) const {
  return sample(logits, job_.options.sampling, static_cast<std::uint64_t>(out_.sample),
                static_cast<std::uint64_t>(std::ssize(out_.tokens) + ahead));
}

bool Writing::take(std::span<const float> logits) {
  const bool first = out_.tokens.empty();
  const TokenId token = choose(logits);
  if (std::ranges::find(job_.ends, token) != job_.ends.end()) {
    finish(Finish::end_of_document);
    return false;
  }
  out_.tokens.push_back(token);
  ++length_;
  std::string bytes;
  job_.tokenizer.decode(token, bytes);
  if (first && job_.drops_first_space[out_.prompt] && bytes.starts_with(' ')) bytes.erase(0, 1);
  emit(stream_.push(bytes));
  const auto ends = [&](bool condition, Finish why) {
    if (condition) finish(why);
    return condition;
  };
  return !ends(stream_.stopped(), Finish::stop) &&
         !ends(std::ssize(out_.tokens) >= job_.options.max_tokens, Finish::length) &&
         !ends(job_.context > 0 && length_ > job_.context, Finish::context);
}

void Writing::finish(Finish why) {
  out_.finish = why;
  emit(stream_.finish());
  if (job_.listener.done) job_.listener.done(out_);
}

void Writing::emit(const std::string& piece) {
  if (piece.empty()) return;
  out_.text += piece;
  if (job_.listener.text) job_.listener.text(out_, piece);
}

std::span<const float> row_of(const at::Tensor& logits, std::int64_t row, const Job& job) {
  const auto width = static_cast<std::size_t>(logits.size(-1));
  const float* data = logits.data_ptr<float>() + static_cast<std::size_t>(row) * width;
  return {data, std::min(width, static_cast<std::size_t>(job.tokenizer.vocab_size()))};
}

}  // namespace penstock
