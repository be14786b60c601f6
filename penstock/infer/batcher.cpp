#include "penstock/infer/batcher.h"

#include <algorithm>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/random.h"

namespace penstock {

/// A text from its order until it is finished.
struct Batcher::Text {
  Id id;
  TextOrder order;
  std::string piece;  // new text that is not handed out yet
  GenerationListener listener;
  Job job;
  Completion completion;
  GeneratedText generated;
  std::int64_t slot = -1;
  std::int64_t read = 0;           // tokens of the prompt that are read
  std::vector<TokenScore> scores;  // of the prompt's tokens 1, 2, ...
  std::size_t kept_scores = 0;     // number of them that the reader keeps for later prompts
  std::string failure;             // why a token of the prompt has no score

  Text(Id id, TextOrder wanted, const ModelConfig& config, const Tokenizer& tokenizer,
       std::int64_t capacity)
      : id(id),
        order(std::move(wanted)),
        listener{.text = [this](const Completion&, std::string_view more) { piece += more; }},
        job(with_prompt(make_job(config, tokenizer, order.options, listener), capacity)),
        completion{.sample = order.sample},
        generated(completion, job) {}

  const std::vector<TokenId>& prompt() const { return job.prompts[0]; }
  bool reads_prompt() const { return read < std::ssize(prompt()); }
  /// The number of likeliest tokens in the scores of the prompt; −1: it has no scores.
  std::int64_t prompt_likeliest() const {
    return order.scores_all ? std::max<std::int64_t>(0, order.likeliest) : -1;
  }
  /// Takes the scores that earlier prompts left. Theirs may list more tokens.
  void begin_scores(std::vector<TokenScore> earlier) {
    scores = std::move(earlier);
    kept_scores = scores.size();
    for (TokenScore& score : scores)
      if (std::ssize(score.likeliest) > prompt_likeliest())
        score.likeliest.resize(static_cast<std::size_t>(prompt_likeliest()));
  }
  /// Scores the prompt's next tokens by the logits [n, V] after the tokens before them.
  void add_scores(const at::Tensor& logits) {
    for (std::int64_t row = 0; row < logits.size(0) && failure.empty(); ++row) {
      const std::size_t next = scores.size() + 1;
      if (next == prompt().size()) return;  // what follows is not of the prompt
      try {
        scores.push_back(score_of(row_of(logits, row, job), prompt()[next], prompt_likeliest()));
      } catch (const Error& error) {
        failure = error.what();
      }
    }
  }

 private:
  Job with_prompt(Job made, std::int64_t capacity) {
    made.context = capacity;
    made.ends.insert(made.ends.end(), order.ends.begin(), order.ends.end());
    add_prompt(made, order.prompt, order.begins_document);
    return made;
  }
};

namespace {

std::int64_t capacity_of(const ModelConfig& config, const BatcherOptions& options) {
  const std::int64_t wanted = options.reader.capacity;
  // A context of a model with memory is the length of a segment, and texts have any number.
  return config.context > 0 && !config.has_memory() ? std::min(config.context, wanted) : wanted;
}

PassReaderOptions reader_options(PassReaderOptions options, std::int64_t capacity) {
  options.capacity = capacity;
  return options;
}

}  // namespace

Batcher::Batcher(std::shared_ptr<LanguageModel> model, const Tokenizer& tokenizer,
                 const BatcherOptions& options)
    : model_(std::move(model)),
      tokenizer_(tokenizer),
      options_(options),
      capacity_(capacity_of(model_->config(), options)),
      reader_(make_pass_reader(model_, reader_options(options.reader, capacity_))),
      scored_(scores_tokens(model_->config())) {
  PENSTOCK_CHECK(options.prompt_tokens > 0, "a step reads one token of prompts or more");
}

Batcher::~Batcher() = default;

Batcher::Id Batcher::add(TextOrder order) {
  PENSTOCK_CHECK(!order.prompt.empty(), "a prompt has one token or more");
  for (const TokenId id : order.prompt)
    PENSTOCK_CHECK(id >= 0 && id < tokenizer_.vocab_size(), "token ", id,
                   " of the prompt is not "
                   "in the vocabulary of ",
                   tokenizer_.vocab_size());
  check_choice(model_->config(), order.choice);
  auto text =
      std::make_unique<Text>(next_id_, std::move(order), model_->config(), tokenizer_, capacity_);
  waiting_.push_back(std::move(text));
  return next_id_++;
}

void Batcher::admit() {
  for (auto it = waiting_.begin(); it != waiting_.end() && running() < reader_->sequences();) {
    Text& text = **it;
    const std::int64_t length = std::ssize(text.prompt());
    const std::int64_t most = length + text.generated.left();
    auto begun = reader_->begin(
        text.prompt(), most, text.order.choice,
        mix64(text.order.options.sampling.seed + static_cast<std::uint64_t>(text.order.sample)),
        text.prompt_likeliest());
    if (!begun) {
      ++it;  // later texts may share a prefix with the prompts that are being read
      continue;
    }
    text.slot = begun->slot;
    text.read = begun->reused;
    text.begin_scores(std::move(begun->scores));
    counts_.reused_tokens += begun->reused;
    running_.splice(running_.end(), waiting_, it++);
  }
}

std::vector<std::pair<Batcher::Text*, PassPart>> Batcher::plan() {
  std::vector<std::pair<Text*, PassPart>> out;
  for (const auto& text : running_)
    if (!text->reads_prompt())
      out.emplace_back(text.get(), PassPart{.slot = text->slot,
                                            .tokens = std::span(text->generated.tokens()).last(1),
                                            .asks = true});
  std::int64_t left = options_.prompt_tokens;
  for (const auto& text : running_) {
    if (!text->reads_prompt() || left == 0) continue;
    const std::int64_t rest = std::ssize(text->prompt()) - text->read;
    const std::int64_t count = reader_->divides_prompts() ? std::min(rest, left) : rest;
    left -= std::min(left, count);
    out.emplace_back(text.get(),
                     PassPart{.slot = text->slot,
                              .tokens = std::span(text->prompt())
                                            .subspan(static_cast<std::size_t>(text->read),
                                                     static_cast<std::size_t>(count)),
                              .asks = count == rest && !text->order.reads_only});
  }
  return out;
}

void Batcher::step() {
  admit();
  auto parts = plan();
  const auto choice = [](const auto& part) { return part.first->order.choice; };
  std::ranges::stable_sort(parts, {}, choice);
  for (auto rest = std::span(std::as_const(parts)); !rest.empty();) {
    const auto other = std::ranges::find_if(
        rest, [&](const auto& part) { return choice(part) != choice(rest.front()); });
    const auto count = static_cast<std::size_t>(other - rest.begin());
    read(rest.first(count));
    rest = rest.subspan(count);
  }
}

void Batcher::read(std::span<const std::pair<Text*, PassPart>> parts) {
  std::vector<PassPart> read;
  std::vector<RoutingOfRows::Row> watched;  // rows whose experts are asked for
  std::int64_t behind = 0;
  for (const auto& [text, part] : parts) behind += std::ssize(part.tokens);
  for (const auto& [text, part] : parts) {
    read.push_back(part);
    if (text->order.scores_all && text->reads_prompt())
      read.back().each = [text = text](const at::Tensor& logits) { text->add_scores(logits); };
    behind -= std::ssize(part.tokens);
    const RoutingShown shown = text->order.routing;
    if (part.asks && shown != RoutingShown::none)
      watched.push_back({.behind = behind, .logits = shown == RoutingShown::logits});
  }
  RoutingOfRows routing(std::move(watched), scored_);
  const at::Tensor logits = reader_->read(read, parts.front().first->order.choice, routing.tap());
  std::vector<TokenRouting> experts = routing.take();
  ++counts_.steps;
  std::int64_t asking = 0;
  std::size_t shown = 0;
  for (const auto& [text, part] : parts) {
    TokenRouting own;
    if (part.asks && text->order.routing != RoutingShown::none) own = std::move(experts[shown++]);
    const std::int64_t row = part.asks ? asking++ : 0;
    bool goes_on = !text->reads_prompt() || advance_prompt(*text, std::ssize(part.tokens));
    if (goes_on && part.asks) goes_on = take(*text, row_of(logits, row, text->job), std::move(own));
    if (!goes_on) end(text);
  }
}

bool Batcher::advance_prompt(Text& text, std::int64_t count) {
  const TextOrder& order = text.order;
  text.read += count;
  counts_.prompt_tokens += count;
  if (order.scores_all) {
    if (!text.failure.empty()) {
      if (order.failed) order.failed(text.failure);
      return false;
    }
    reader_->add_scores(text.slot, std::span(text.scores).subspan(text.kept_scores));
    text.kept_scores = text.scores.size();
    if (!text.reads_prompt() && order.prompt_scores) order.prompt_scores(text.scores);
  }
  if (text.reads_prompt() || !order.reads_only) return true;
  text.generated.finish(Finish::length);
  if (order.done) order.done(text.completion, text.piece);
  return false;
}

bool Batcher::take(Text& text, std::span<const float> logits, TokenRouting routing) {
  const std::size_t before = text.completion.tokens.size();
  bool goes_on = false;
  try {
    goes_on = text.generated.take(logits);
  } catch (const Error& error) {
    if (text.order.failed) text.order.failed(error.what());
    return false;
  }
  const bool written = text.completion.tokens.size() > before;
  const bool end_shown = text.order.scores_all && text.completion.finish == Finish::end_of_document;
  if (written) ++counts_.written_tokens;
  if (written || end_shown) {
    // The end is not among the completion's tokens. The same draw chooses it again.
    GeneratedToken token{
        .token = written ? text.completion.tokens.back() : text.generated.choose(logits),
        .offset = written ? text.generated.last_begin() : text.generated.characters(),
        .routing = std::move(routing)};
    token.piece = std::exchange(text.piece, {});
    if (text.order.likeliest >= 0)
      token.score = score_of(logits, token.token, text.order.likeliest);
    if (text.order.token) text.order.token(token);
  }
  if (!goes_on && text.order.done) text.order.done(text.completion, text.piece);
  return goes_on;
}

void Batcher::end(Text* text) {
  reader_->end(text->slot);
  running_.remove_if([&](const auto& one) { return one.get() == text; });
}

void Batcher::cancel(Id id) {
  for (Texts* const list : {&waiting_, &running_})
    for (const auto& text : *list) {
      if (text->id != id) continue;
      text->generated.finish(Finish::interrupted);
      if (text->order.done) text->order.done(text->completion, text->piece);
      if (list == &running_) reader_->end(text->slot);
      list->remove_if([&](const auto& one) { return one->id == id; });
      return;
    }
}

void Batcher::cancel_all() {
  while (!waiting_.empty()) cancel(waiting_.front()->id);
  while (!running_.empty()) cancel(running_.front()->id);
}

void Batcher::fail_all(const std::string& why) {
  for (Texts* const list : {&waiting_, &running_}) {
    for (const auto& text : *list) {
      if (list == &running_) reader_->end(text->slot);
      if (text->order.failed) text->order.failed(why);
    }
    list->clear();
  }
}

}  // namespace penstock
