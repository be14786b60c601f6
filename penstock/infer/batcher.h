// Continuous batching: generates many texts at once; a text can be added or end at any step. Each
// step is one pass over the last token of every text and over a part of the prompts of new texts.
// The batcher has no thread of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "penstock/infer/completion.h"
#include "penstock/infer/generated_text.h"
#include "penstock/infer/pass_reader.h"
#include "penstock/infer/token_routing.h"
#include "penstock/infer/token_score.h"

namespace penstock {

/// A generated token, as TextOrder::token receives it.
struct GeneratedToken {
  TokenId token = -1;
  std::string piece;        ///< text that has become certain; may be empty
  std::int64_t offset = 0;  ///< number of characters of the generated tokens before it
  TokenScore score;         ///< empty unless requested
  /// Routing of the preceding token, whose logits chose this one; empty unless requested.
  TokenRouting routing;
};

/// A request for one text.
struct TextOrder {
  std::vector<TokenId> prompt;
  bool begins_document = false;    ///< as in add_prompt()
  GenerateOptions options;         ///< `samples` and `draft` are ignored
  std::int64_t sample = 0;         ///< draw i comes from (seed, sample, i)
  std::vector<TokenId> ends = {};  ///< ids that end the text besides those that end documents
  std::int64_t likeliest = -1;     ///< likeliest tokens in each score; −1: no scores
  /// The prompt's tokens are scored too, and prompt_scores() receives the scores. If an id ends the
  /// text, token() receives this id last.
  bool scores_all = false;
  bool reads_only = false;  ///< reads the prompt and generates nothing; ignores options.max_tokens
  RoutingShown routing = RoutingShown::none;
  RoutingChoice choice = {};  ///< replaces the model's own
  /// Receives the scores of the prompt's tokens 1, 2, ..., once the prompt is read. May be null.
  std::function<void(const std::vector<TokenScore>&)> prompt_scores;
  std::function<void(const GeneratedToken&)> token;  ///< may be null
  /// Receives the finished text; `rest` is the text that token() has not received. Called once,
  /// unless the text fails or the batcher is destroyed first. May be null.
  std::function<void(const Completion&, const std::string& rest)> done;
  /// Called in place of done() if no token can be chosen. May be null.
  std::function<void(const std::string& why)> failed;
};

struct BatcherOptions {
  PassReaderOptions reader;
  std::int64_t prompt_tokens = 64;  ///< prompt tokens that a step reads, over all texts
};

/// Counts since construction.
struct BatcherCounts {
  std::int64_t steps = 0, prompt_tokens = 0, reused_tokens = 0, written_tokens = 0;
};

/// Generates each text with the same tokens as if it were generated alone. A token is a function of
/// its draw and of the logits before it. The logits depend neither on the other texts in the pass,
/// nor on how the prompt was divided, nor on reused cache entries (pass_reader.h).
/// Not thread-safe.
class Batcher {
 public:
  using Id = std::uint64_t;
  /// REQUIRES: `tokenizer` outlives the batcher.  Throws Error for a router that is not causal.
  Batcher(std::shared_ptr<LanguageModel> model, const Tokenizer& tokenizer,
          const BatcherOptions& options);
  ~Batcher();

  /// Queues a text. Throws Error for impossible options, a routing choice that the model does not
  /// support, and a prompt that is empty, too long or has an unknown id.
  Id add(TextOrder order);
  /// Ends the text with Finish::interrupted. Ignores the id of a text that has ended.
  void cancel(Id id);
  /// Cancels all texts.
  void cancel_all();
  /// Ends all texts by calling failed().
  void fail_all(const std::string& why);
  /// Gives free slots to waiting texts, then runs one pass for each distinct routing choice. Does
  /// nothing if there are no texts.
  void step();

  std::int64_t waiting() const { return std::ssize(waiting_); }
  std::int64_t running() const { return std::ssize(running_); }
  bool idle() const { return waiting_.empty() && running_.empty(); }
  /// The largest number of tokens that the model reads of a sequence, including the prompt. The
  /// last generated token is not read, so a text may have one token more.
  std::int64_t capacity() const { return capacity_; }
  const BatcherCounts& counts() const { return counts_; }
  std::int64_t kept_tokens() const { return reader_->kept_tokens(); }

 private:
  struct Text;
  using Texts = std::list<std::unique_ptr<Text>>;

  void admit();
  /// The tokens that a step reads of each text.
  std::vector<std::pair<Text*, PassPart>> plan();
  /// Reads the parts in one pass. REQUIRES: their texts have the same routing choice.
  void read(std::span<const std::pair<Text*, PassPart>> parts);
  /// Counts `count` more tokens of the prompt as read; false if the text has ended.
  bool advance_prompt(Text& text, std::int64_t count);
  /// Chooses the next token; false if the text has ended.
  bool take(Text& text, std::span<const float> logits, TokenRouting routing);
  void end(Text* text);

  std::shared_ptr<LanguageModel> model_;
  const Tokenizer& tokenizer_;
  BatcherOptions options_;
  std::int64_t capacity_;
  std::unique_ptr<PassReader> reader_;
  Texts waiting_, running_;
  BatcherCounts counts_;
  bool scored_;  // the model's routers compute logits
  Id next_id_ = 1;
};

}  // namespace penstock
