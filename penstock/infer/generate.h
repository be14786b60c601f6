// Generates texts from prompts and passes each piece of text to a listener. It prints nothing.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/data/tokenizer.h"
#include "penstock/infer/completion.h"
#include "penstock/models/language_model.h"

namespace penstock {

struct Generation {
  std::vector<Completion> completions;  ///< by prompt, then sample
  GenerationSpeed speed;
};

/// The tokens that a model reads for a prompt: the token that begins a document
/// (Tokenizer::beginning_of_document()), if there is one, then the text's tokens. An empty prompt
/// becomes the vocabulary's `bos`, or else the token that ends a document.
/// Throws Error for text that is not UTF-8, and for an empty prompt if there is no such token.
std::vector<TokenId> prompt_tokens(const Tokenizer& tokenizer, std::string_view text);

/// Continues each prompt `samples` times. Draw i of a text comes from (seed, sample, i), and a
/// sequence's logits do not depend on the other sequences, so a text is the same alone and in any
/// group. Generates up to kFewTokens texts at once; one at a time with a draft or unless
/// rows_stand_alone().
/// Throws Error for routers that are not causal, prompts longer than the model's context, a
/// tokenizer with more ids than the model, impossible options, and a draft that check_draft()
/// refuses.
Generation generate(std::shared_ptr<LanguageModel> model, const Tokenizer& tokenizer,
                    const std::vector<std::string>& prompts, const GenerateOptions& options,
                    const GenerationListener& listener = {});
/// The same for prompts of token ids, such as a corpus's. Throws Error for an empty prompt too.
Generation generate_from_tokens(std::shared_ptr<LanguageModel> model, const Tokenizer& tokenizer,
                                std::vector<std::vector<TokenId>> prompts,
                                const GenerateOptions& options,
                                const GenerationListener& listener = {});

}  // namespace penstock
