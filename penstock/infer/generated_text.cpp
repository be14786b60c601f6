#include "penstock/infer/generated_text.h"

#include <algorithm>

#include "penstock/base/error.h"
#include "penstock/data/vocabulary.h"
#include "penstock/infer/draft_check.h"

namespace penstock {
namespace {

void check_options(const GenerateOptions& options) {
  check(options.sampling);
  PENSTOCK_CHECK(options.max_tokens > 0 && options.samples > 0,
                 "nothing to generate: ", options.max_tokens, " tokens, ", options.samples,
                 " texts of each prompt");
  PENSTOCK_CHECK(options.samples == 1 || options.sampling.temperature > 0, options.samples,
                 " texts of a prompt would all be the same at temperature 0; give a temperature");
  for (const auto& word : options.stop)
    PENSTOCK_CHECK(!word.empty(), "a stop string is empty: it would end every text at once");
}

}  // namespace

Job make_job(const ModelConfig& config, const Tokenizer& tokenizer, const GenerateOptions& options,
             const GenerationListener& listener) {
  check_options(options);
  check(options.adjustments, tokenizer.vocab_size());
  if (options.draft) check_draft(config, tokenizer, options);
  PENSTOCK_CHECK(tokenizer.vocab_size() <= config.vocab, "the tokenizer has ",
                 tokenizer.vocab_size(), " ids, the model knows ", config.vocab,
                 ": they do not belong together");
  Job job{.tokenizer = tokenizer, .options = options, .listener = listener};
  if (!config.has_memory()) job.context = config.context;
  const auto vocabulary = tokenizer.vocabulary();
  job.spaced = vocabulary && vocabulary->add_space_prefix &&
               (vocabulary->kind == Vocabulary::Kind::kSentencePieceBpe ||
                vocabulary->kind == Vocabulary::Kind::kSentencePieceUnigram);
  for (const TokenId id : {tokenizer.end_of_document(), vocabulary ? vocabulary->eos : -1})
    if (id >= 0) job.ends.push_back(id);
  return job;
}

void add_prompt(Job& job, std::vector<TokenId> tokens, bool begins_document) {
  PENSTOCK_CHECK(job.context == 0 || std::ssize(tokens) <= job.context, "prompt ",
                 job.prompts.size() + 1, " is ", tokens.size(),
                 " tokens long, more than the context of ", job.context, ": shorten it");
  job.prompts.push_back(std::move(tokens));
  job.drops_first_space.push_back(job.spaced && begins_document);
}

GeneratedText::GeneratedText(Completion& completion, const Job& job)
    : out_(completion),
      job_(job),
      stream_(job.options.stop),
      length_(std::ssize(job.prompts[completion.prompt])) {}

std::int64_t GeneratedText::left() const {
  const std::int64_t wanted = job_.options.max_tokens - std::ssize(out_.tokens);
  // One more token is chosen after the context's last token.
  return job_.context > 0 ? std::min(wanted, job_.context + 1 - length_) : wanted;
}

TokenId GeneratedText::choose(std::span<const float> logits, std::int64_t ahead) const {
  std::vector<float> adjusted;
  if (!job_.options.adjustments.none()) {
    adjusted = adjusted_logits(logits, job_.options.adjustments, prompt(), tokens());
    logits = adjusted;
  }
  return sample(logits, job_.options.sampling, static_cast<std::uint64_t>(out_.sample),
                static_cast<std::uint64_t>(std::ssize(out_.tokens) + ahead));
}

bool GeneratedText::take(std::span<const float> logits) {
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

void GeneratedText::finish(Finish why) {
  out_.finish = why;
  emit(stream_.finish());
  if (job_.listener.done) job_.listener.done(out_);
}

void GeneratedText::emit(const std::string& piece) {
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
