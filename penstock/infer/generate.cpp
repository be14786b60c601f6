#include "penstock/infer/generate.h"

#include <algorithm>
#include <limits>
#include <span>

#include "penstock/base/error.h"
#include "penstock/base/random.h"
#include "penstock/base/stopwatch.h"
#include "penstock/data/utf8.h"
#include "penstock/data/vocabulary.h"
#include "penstock/infer/draft.h"
#include "penstock/infer/generated_text.h"
#include "penstock/infer/session.h"

namespace penstock {
namespace {

/// Generates the texts of a group in one batch; false if the listener stops it.
bool generate_group(Session& session, std::span<Completion> group, const Job& job,
                    GenerationSpeed& speed) {
  std::vector<GeneratedText> texts;
  for (Completion& completion : group) texts.emplace_back(completion, job);
  std::vector<std::int64_t> rows;
  std::vector<TokenId> tokens;
  const auto keep = [&](std::int64_t row) {
    rows.push_back(row);
    tokens.push_back(texts[static_cast<std::size_t>(row)].tokens().back());
  };
  for (std::int64_t row = 0; row < std::ssize(texts); ++row) {
    if (job.interrupted()) return false;
    GeneratedText& text = texts[static_cast<std::size_t>(row)];
    const Stopwatch watch;
    const at::Tensor logits = session.begin(row, text.prompt());
    speed.prompt_seconds += watch.seconds();
    speed.prompt_tokens += std::ssize(text.prompt());
    if (text.take(row_of(logits, 0, job))) keep(row);
  }
  while (!rows.empty()) {
    if (job.interrupted()) {
      for (const std::int64_t row : rows)
        texts[static_cast<std::size_t>(row)].finish(Finish::interrupted);
      return false;
    }
    const Stopwatch watch;
    const at::Tensor logits = session.next(rows, tokens);
    speed.steps_seconds += watch.seconds();
    speed.steps_tokens += std::ssize(rows);
    const std::vector<std::int64_t> asked = std::move(rows);
    rows.clear();
    tokens.clear();
    for (std::int64_t i = 0; i < std::ssize(asked); ++i) {
      const std::int64_t row = asked[static_cast<std::size_t>(i)];
      if (texts[static_cast<std::size_t>(row)].take(row_of(logits, i, job))) keep(row);
    }
  }
  return true;
}

/// Generates the texts of a group; false if the listener stops it.
bool generate_texts(const std::shared_ptr<LanguageModel>& model, std::span<Completion> group,
                    const Job& job, GenerationSpeed& speed) {
  std::int64_t longest = 0;
  for (const Completion& completion : group)
    longest = std::max(longest, std::ssize(job.prompts[completion.prompt]));
  // max_tokens may be any number: the sum must not wrap.
  const std::int64_t most =
      job.context > 0 ? job.context : std::numeric_limits<std::int64_t>::max();
  const std::int64_t capacity = longest + std::min(job.options.max_tokens, most - longest);
  const SessionOptions options{
      .sequences = std::ssize(group),
      .capacity = capacity,
      .seed = mix64(job.options.sampling.seed + static_cast<std::uint64_t>(group[0].sample))};
  if (!job.options.draft) return generate_group(*make_session(model, options), group, job, speed);
  Draft draft(job, capacity);
  GeneratedText text(group[0], job);
  return generate_drafted(*make_rewindable_session(model, options), draft, text, job, speed);
}

/// Writes all texts, group by group.
Generation write_all(const std::shared_ptr<LanguageModel>& model, const Job& job) {
  Generation out;
  for (std::size_t p = 0; p < job.prompts.size(); ++p)
    for (std::int64_t s = 0; s < job.options.samples; ++s)
      out.completions.push_back({.prompt = p, .sample = s});
  const bool alone = job.options.draft || !rows_stand_alone(model->config());
  const auto largest = static_cast<std::size_t>(alone ? 1 : kFewTokens);
  for (std::size_t first = 0; first < out.completions.size(); first += largest) {
    const std::span<Completion> group =
        std::span(out.completions)
            .subspan(first, std::min(largest, out.completions.size() - first));
    if (!generate_texts(model, group, job, out.speed)) break;
  }
  return out;
}

}  // namespace

std::vector<TokenId> prompt_tokens(const Tokenizer& tokenizer, std::string_view text) {
  const std::size_t invalid = find_invalid_utf8(text);
  PENSTOCK_CHECK(invalid == std::string_view::npos, "the prompt is not UTF-8 at byte ", invalid);
  std::vector<TokenId> out;
  if (const TokenId id = tokenizer.beginning_of_document(); id >= 0) out.push_back(id);
  if (out.empty() && text.empty()) {
    const auto vocabulary = tokenizer.vocabulary();
    const TokenId begin =
        vocabulary && vocabulary->bos >= 0 ? vocabulary->bos : tokenizer.end_of_document();
    PENSTOCK_CHECK(begin >= 0, "the prompt is empty, and tokenizer '", tokenizer.spec(),
                   "' has no token that begins or ends a document; give a prompt");
    out.push_back(begin);
  }
  if (!text.empty()) tokenizer.encode(text, out);
  PENSTOCK_CHECK(!out.empty(), "the prompt has no tokens; give another");
  return out;
}

Generation generate(std::shared_ptr<LanguageModel> model, const Tokenizer& tokenizer,
                    const std::vector<std::string>& prompts, const GenerateOptions& options,
                    const GenerationListener& listener) {
  Job job = make_job(model->config(), tokenizer, options, listener);
  for (const auto& prompt : prompts)
    add_prompt(job, prompt_tokens(tokenizer, prompt), prompt.empty());
  return write_all(model, job);
}

Generation generate_from_tokens(std::shared_ptr<LanguageModel> model, const Tokenizer& tokenizer,
                                std::vector<std::vector<TokenId>> prompts,
                                const GenerateOptions& options,
                                const GenerationListener& listener) {
  Job job = make_job(model->config(), tokenizer, options, listener);
  for (auto& prompt : prompts) {
    PENSTOCK_CHECK(!prompt.empty(), "a prompt has one token or more");
    add_prompt(job, std::move(prompt), false);
  }
  return write_all(model, job);
}

}  // namespace penstock
