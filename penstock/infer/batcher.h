// Writes many texts at once, which come and go while others are written ("continuous batching").
// Each step is one pass over a token of every text that is being written, and over a part of the
// prompts of new texts. It has no thread of its own.
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

/// A token as it comes.
struct GeneratedToken {
  TokenId token = -1;
  std::string piece;        ///< the text that is certain by now; may be empty
  std::int64_t offset = 0;  ///< number of characters that the tokens before it spell
  TokenScore score;         ///< empty unless asked for
  /// Experts of the token before it, by whose reading it was chosen; empty unless asked for.
  TokenRouting routing;
};

/// What one text is to be.
struct TextOrder {
  std::vector<TokenId> prompt;
  bool begins_document = false;    ///< as in add_prompt()
  GenerateOptions options;         ///< samples and draft are of no use here
  std::int64_t sample = 0;         ///< draw i comes from (seed, sample, i)
  std::vector<TokenId> ends = {};  ///< ids that end it besides those that end documents
  std::int64_t likeliest = -1;     ///< of each token; −1: no log-probabilities either
  /// The prompt's tokens are scored too, and given to prompt_scores(). If an id ends the text,
  /// token() gets this id as the last.
  bool scores_all = false;
  bool reads_only = false;  ///< the text ends with its prompt; options.max_tokens is of no use
  RoutingShown routing = RoutingShown::none;
  RoutingChoice choice = {};  ///< in place of the model's own
  /// The scores of the prompt's tokens 1, 2, ..., once the prompt is read. May be null.
  std::function<void(const std::vector<TokenScore>&)> prompt_scores;
  std::function<void(const GeneratedToken&)> token;  ///< may be null
  /// The text with what ended it; `rest` is text that had waited. Called once, unless the batcher
  /// goes before. May be null.
  std::function<void(const Completion&, const std::string& rest)> done;
  /// In place of done(): no token could be chosen.
  std::function<void(const std::string& why)> failed;
};

struct BatcherOptions {
  PassReaderOptions reader;
  std::int64_t prompt_tokens = 64;  ///< of prompts that a step reads, all together
};

/// Counts since the start.
struct BatcherCounts {
  std::int64_t steps = 0, prompt_tokens = 0, reused_tokens = 0, written_tokens = 0;
};

/// Every text is that which its order gives alone, token for token: a token is a function of the
/// logits before it and of its draw, and the logits do not depend on the texts beside it, nor on
/// how its prompt was divided, nor on whose cache it began with (pass_reader.h).
/// One thread at a time.
class Batcher {
 public:
  using Id = std::uint64_t;
  /// What it refers to outlives it.  Throws Error for a router that is not causal.
  Batcher(std::shared_ptr<LanguageModel> model, const Tokenizer& tokenizer,
          const BatcherOptions& options);
  ~Batcher();

  /// Throws Error for impossible options, a routing that the model does not take, and a prompt for
  /// which there is no room.
  Id add(TextOrder order);
  /// Ends the text as it is (Finish::interrupted); an id that has ended is none.
  void cancel(Id id);
  /// Ends all texts so.
  void cancel_all();
  /// Ends all texts by failed().
  void fail_all(const std::string& why);
  /// One pass for each routing that is asked for, after those that wait got the slots that are
  /// free. Nothing where there is no text.
  void step();

  std::int64_t waiting() const { return std::ssize(waiting_); }
  std::int64_t running() const { return std::ssize(running_); }
  bool idle() const { return waiting_.empty() && running_.empty(); }
  /// Most tokens that are read of a sequence, the prompt's too. One more may be written.
  std::int64_t capacity() const { return capacity_; }
  const BatcherCounts& counts() const { return counts_; }
  std::int64_t kept_tokens() const { return reader_->kept_tokens(); }

 private:
  struct Text;
  using Texts = std::list<std::unique_ptr<Text>>;

  void admit();
  /// What a step reads, by text.
  std::vector<std::pair<Text*, PassPart>> plan();
  /// Reads these in one pass, whose texts have the same routing.
  void read(std::span<const std::pair<Text*, PassPart>> parts);
  /// Counts that many further tokens of the prompt as read; false where the text has ended.
  bool advance_prompt(Text& text, std::int64_t count);
  /// Chooses the token that follows; false where the text has ended.
  bool take(Text& text, std::span<const float> logits, TokenRouting routing);
  void end(Text* text);

  std::shared_ptr<LanguageModel> model_;
  const Tokenizer& tokenizer_;
  BatcherOptions options_;
  std::int64_t capacity_;
  std::unique_ptr<PassReader> reader_;
  Texts waiting_, running_;
  BatcherCounts counts_;
  bool scored_;  // the model's logits say anything
  Id next_id_ = 1;
};

}  // namespace penstock
