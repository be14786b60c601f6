#include "penstock/infer/batcher.h"

#include <algorithm>
#include <cmath>
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
  Writing writing;
  std::int64_t place = -1;
  std::int64_t read = 0;  // tokens of the prompt that are read

  Text(Id id, TextOrder wanted, const ModelConfig& config, const Tokenizer& tokenizer,
       std::int64_t capacity)
      : id(id),
        order(std::move(wanted)),
        listener{.text = [this](const Completion&, std::string_view more) { piece += more; }},
        job(with_prompt(make_job(config, tokenizer, order.options, listener), capacity)),
        completion{.sample = order.sample},
        writing(completion, job) {}

  const std::vector<TokenId>& prompt() const { return job.prompts[0]; }
  bool reads_prompt() const { return read < std::ssize(prompt()); }

 private:
  Job with_prompt(Job made, std::int64_t capacity) {
    made.context = capacity;
    made.ends.insert(made.ends.end(), order.ends.begin(), order.ends.end());
    add_prompt(made, order.prompt, order.begins_document);
    return made;
  }
};

namespace {

/// log softmax(logits) for `token` and for the `count` likeliest tokens.
std::vector<LikelyToken> log_probabilities(std::span<const float> logits, TokenId token,
                                           std::int64_t count) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - most);
  const double total = most + std::log(sum);
  std::vector<LikelyToken> out{{token, logits[static_cast<std::size_t>(token)] - total}};
  if (count == 0) return out;
  std::vector<TokenId> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<TokenId>(i);
  const auto shown = std::min(order.size(), static_cast<std::size_t>(count));
  const auto logit = [&](TokenId id) { return logits[static_cast<std::size_t>(id)]; };
  std::ranges::partial_sort(
      order, order.begin() + static_cast<std::ptrdiff_t>(shown),
      [&](TokenId a, TokenId b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
  for (std::size_t i = 0; i < shown; ++i) out.push_back({order[i], logit(order[i]) - total});
  return out;
}

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
  for (auto it = waiting_.begin(); it != waiting_.end() && running() < reader_->places();) {
    Text& text = **it;
    const std::int64_t length = std::ssize(text.prompt());
    const std::int64_t most = length + text.writing.left();
    const auto begun = reader_->begin(
        text.prompt(), most, text.order.choice,
        mix64(text.order.options.sampling.seed + static_cast<std::uint64_t>(text.order.sample)));
    if (!begun) {
      ++it;  // later texts may share a prefix with the prompts that are being read
      continue;
    }
    text.place = begun->place;
    text.read = begun->reused;
    counts_.reused_tokens += begun->reused;
    running_.splice(running_.end(), waiting_, it++);
  }
}

std::vector<std::pair<Batcher::Text*, PassPart>> Batcher::plan() {
  std::vector<std::pair<Text*, PassPart>> out;
  for (const auto& text : running_)
    if (!text->reads_prompt())
      out.emplace_back(text.get(), PassPart{.place = text->place,
                                            .tokens = std::span(text->writing.tokens()).last(1),
                                            .asks = true});
  std::int64_t left = options_.prompt_tokens;
  for (const auto& text : running_) {
    if (!text->reads_prompt() || left == 0) continue;
    const std::int64_t rest = std::ssize(text->prompt()) - text->read;
    const std::int64_t count = reader_->divides_prompts() ? std::min(rest, left) : rest;
    left -= std::min(left, count);
    out.emplace_back(text.get(),
                     PassPart{.place = text->place,
                              .tokens = std::span(text->prompt())
                                            .subspan(static_cast<std::size_t>(text->read),
                                                     static_cast<std::size_t>(count)),
                              .asks = count == rest});
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
    if (text->reads_prompt()) {
      text->read += std::ssize(part.tokens);
      counts_.prompt_tokens += std::ssize(part.tokens);
    }
    if (!part.asks) continue;
    TokenRouting own;
    if (text->order.routing != RoutingShown::none) own = std::move(experts[shown++]);
    if (!take(*text, row_of(logits, asking++, text->job), std::move(own))) end(text);
  }
}

bool Batcher::take(Text& text, std::span<const float> logits, TokenRouting routing) {
  const std::size_t before = text.completion.tokens.size();
  bool goes_on = false;
  try {
    goes_on = text.writing.take(logits);
  } catch (const Error& error) {
    if (text.order.failed) text.order.failed(error.what());
    return false;
  }
  if (text.completion.tokens.size() > before) {
    ++counts_.written_tokens;
    WrittenToken token{.token = text.completion.tokens.back(),
                       .offset = text.writing.last_begin(),
                       .routing = std::move(routing)};
    token.piece = std::exchange(text.piece, {});
    if (text.order.likeliest >= 0) {
      token.likeliest = log_probabilities(logits, token.token, text.order.likeliest);
      token.logprob = token.likeliest.front().logprob;
      token.likeliest.erase(token.likeliest.begin());
    }
    if (text.order.token) text.order.token(token);
  }
  if (!goes_on && text.order.done) text.order.done(text.completion, text.piece);
  return goes_on;
}

void Batcher::end(Text* text) {
  reader_->end(text->place);
  running_.remove_if([&](const auto& one) { return one.get() == text; });
}

void Batcher::cancel(Id id) {
  for (Texts* const list : {&waiting_, &running_})
    for (const auto& text : *list) {
      if (text->id != id) continue;
      text->writing.finish(Finish::interrupted);
      if (text->order.done) text->order.done(text->completion, text->piece);
      if (list == &running_) reader_->end(text->place);
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
      if (list == &running_) reader_->end(text->place);
      if (text->order.failed) text->order.failed(why);
    }
    list->clear();
  }
}

}  // namespace penstock
