// Texts that a model generates after prompts: options, results, and listeners. generate.h and
// batcher.h generate them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/data/tokenizer.h"
#include "penstock/infer/logit_adjustments.h"
#include "penstock/infer/sampler.h"
#include "penstock/models/language_model.h"

namespace penstock {

struct GenerateOptions {
  std::int64_t max_tokens = 256;  ///< largest number of generated tokens in a text
  std::int64_t samples = 1;       ///< texts generated for each prompt
  SamplingOptions sampling;
  LogitAdjustments adjustments;   ///< of the logits before a token is chosen
  std::vector<std::string> stop;  ///< a text ends before the first of these strings
  /// A smaller model with the same tokenizer that proposes tokens, or null. It does not change the
  /// texts.
  std::shared_ptr<LanguageModel> draft;
  std::int64_t draft_tokens = 4;  ///< tokens proposed at a time
};

/// What ended a text.
enum class Finish {
  end_of_document,
  length,       ///< the text has max_tokens
  context,      ///< the sequence fills the model's context
  stop,         ///< the text reached a stop string
  interrupted,  ///< the caller ended the text
};
/// "end-of-document", "length", "context", "stop" or "interrupted".
std::string_view name(Finish finish);

struct Completion {
  std::size_t prompt = 0;       ///< index among the prompts
  std::int64_t sample = 0;      ///< index among the prompt's texts
  std::vector<TokenId> tokens;  ///< the generated tokens, without the end of a document
  std::string text;             ///< without the prompt
  Finish finish = Finish::interrupted;
};

struct GenerationSpeed {
  std::int64_t prompt_tokens = 0;  ///< including tokens that begin a document
  double prompt_seconds = 0;
  std::int64_t steps_tokens = 0;  ///< read after the prompts, without rejected proposals
  double steps_seconds = 0;
  std::int64_t drafted_tokens = 0;   ///< tokens that a draft model proposed
  std::int64_t accepted_tokens = 0;  ///< proposed tokens that the model chose too
};

/// Callbacks during generation; any may be null.
struct GenerationListener {
  std::function<void(const Completion&, std::string_view piece)> text;
  std::function<void(const Completion&)> done;
  std::function<bool()> interrupted;  ///< called between steps; true ends all texts
};

}  // namespace penstock
