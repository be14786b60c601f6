// A text during generation: chooses its tokens from logits and turns them into text until the text
// ends. generate.cpp, draft.h and batcher.h compute the logits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "penstock/infer/completion.h"
#include "penstock/infer/text_stream.h"

namespace penstock {

/// The state that all texts of a call share.
struct Job {
  const Tokenizer& tokenizer;
  const GenerateOptions& options;
  const GenerationListener& listener;
  std::vector<std::vector<TokenId>> prompts;
  std::vector<TokenId> ends;            ///< ids that end a document
  std::int64_t context = 0;             ///< largest number of tokens of a sequence; 0: any
  bool spaced = false;                  ///< the tokenizer adds a space before a document's text
  std::vector<bool> drops_first_space;  ///< [prompts]: its texts drop the added space

  bool interrupted() const { return listener.interrupted && listener.interrupted(); }
};

/// Makes a job without prompts. REQUIRES: the arguments outlive it.
/// Throws Error for impossible options, a draft that check_draft() refuses and a tokenizer with
/// more ids than the model.
Job make_job(const ModelConfig& config, const Tokenizer& tokenizer, const GenerateOptions& options,
             const GenerationListener& listener);
/// Adds a prompt. Throws Error if it is longer than the job's context.
/// @param begins_document  whether the prompt's texts begin a document
void add_prompt(Job& job, std::vector<TokenId> tokens, bool begins_document);

class GeneratedText {
 public:
  GeneratedText(Completion& completion, const Job& job);

  const std::vector<TokenId>& prompt() const { return job_.prompts[out_.prompt]; }
  /// The tokens generated so far.
  const std::vector<TokenId>& tokens() const { return out_.tokens; }
  /// The number of tokens, including the prompt's.
  std::int64_t length() const { return length_; }
  /// The number of characters before the last token's first character.
  std::int64_t last_begin() const { return stream_.last_begin(); }
  /// The number of whole characters of all tokens.
  std::int64_t characters() const { return stream_.characters(); }
  /// The largest number of tokens that may still follow.
  std::int64_t left() const;

  /// The token that the logits [V] choose with the draw of the next token (ahead = 0) or of a token
  /// `ahead` positions after it. Penalties count the tokens so far. Adds nothing to the text.
  TokenId choose(std::span<const float> logits, std::int64_t ahead = 0) const;
  /// Chooses the next token by its logits [V] and adds it; false if the text has ended.
  bool take(std::span<const float> logits);
  /// Ends the text and calls the listener's done().
  void finish(Finish why);

 private:
  void emit(const std::string& piece);

  Completion& out_;
  const Job& job_;
  TextStream stream_;
  std::int64_t length_;
};

/// The row `row` of logits [R, V], cut to the tokenizer's ids.
std::span<const float> row_of(const at::Tensor& logits, std::int64_t row, const Job& job);

}  // namespace penstock
