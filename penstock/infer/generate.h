// Generates text from prompts and passes it on as it comes. The program prints it.
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

/// The tokens that a model reads for a prompt: the vocabulary's beginning of a document where its
/// documents have one, then the text. An empty prompt is that token, or else the end of a document,
/// behind which another begins.
/// Throws Error for text that is not UTF-8, and for an empty prompt where there is no such token.
std::vector<TokenId> prompt_tokens(const Tokenizer& tokenizer, std::string_view text);

/// Continues each prompt `samples` times. Draw i of a text comes from (seed, sample, i), and a
/// row's numbers do not depend on the others': a text is the same alone and beside any others.
/// Works through the texts in groups of up to 16, one by one with a draft and where a router lets
/// rows meddle with each other (rows_stand_alone).
/// Throws Error for routers that are not causal, prompts longer than the model's context, a
/// tokenizer with more ids than the model, impossible options, and a draft that check_draft()
/// refuses.
Generation generate(std::shared_ptr<LanguageModel> model, const Tokenizer& tokenizer,
                    const std::vector<std::string>& prompts, const GenerateOptions& options,
                    const GenerationListener& listener = {});
/// The same for prompts of token ids, such as a corpus's; each has at least one.
Generation generate_from_tokens(std::shared_ptr<LanguageModel> model, const Tokenizer& tokenizer,
                                std::vector<std::vector<TokenId>> prompts,
                                const GenerateOptions& options,
                                const GenerationListener& listener = {});

}  // namespace penstock
