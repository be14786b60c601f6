// A text during generation, token after token until its end. generate.cpp and draft.h compute the
// logits.
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
  std::int64_t context = 0;             ///< most tokens of a sequence; 0: any number
  bool spaced = false;                  ///< before a document's first word is a space no text has
  std::vector<bool> drops_first_space;  ///< of each prompt's texts: those that begin a document

  bool interrupted() const { return listener.interrupted && listener.interrupted(); }
};

/// A job without prompts. Its arguments must outlive it.
/// Throws Error for impossible options, a draft that check_draft() refuses and a tokenizer with
/// more ids than the model.
Job make_job(const ModelConfig& config, const Tokenizer& tokenizer, const GenerateOptions& options,
             const GenerationListener& listener);
/// Throws Error if the prompt does not fit the job's context.
/// @param begins_document  whether its texts begin one
void add_prompt(Job& job, std::vector<TokenId> tokens, bool begins_document);

/// A text during generation.
class GeneratedText {
 public:
  GeneratedText(Completion& completion, const Job& job);

  const std::vector<TokenId>& prompt() const { return job_.prompts[out_.prompt]; }
  /// The tokens generated so far.
  const std::vector<TokenId>& tokens() const { return out_.tokens; }
  /// The number of tokens, including the prompt's.
  std::int64_t length() const { return length_; }
  /// The number of characters before those of the last token.
  std::int64_t last_begin() const { return stream_.last_begin(); }
  /// The number of whole characters of all tokens.
  std::int64_t characters() const { return stream_.characters(); }
  /// The largest number of tokens that may still follow.
  std::int64_t left() const;

  /// What would be chosen by these logits as the token that is `ahead` tokens behind the next.
  TokenId choose(std::span<const float> logits, std::int64_t ahead = 0) const;
  /// Chooses the token that follows, by its logits [V]; false where the text has ended.
  bool take(std::span<const float> logits);
  void finish(Finish why);

 private:
  void emit(const std::string& piece);

  Completion& out_;
  const Job& job_;
  TextStream stream_;
  std::int64_t length_;
};

/// A row's logits [R, V] for the ids that the tokenizer knows.
std::span<const float> row_of(const at::Tensor& logits, std::int64_t row, const Job& job);

}  // namespace penstock
