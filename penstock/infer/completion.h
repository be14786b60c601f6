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
#include "penstock/infer/sampler.h"
#include "penstock/models/language_model.h"

namespace penstock {

struct GenerateOptions {
  std::int64_t max_tokens = 256;  ///< of each text
  std::int64_t samples = 1;       ///< texts of each prompt
  SamplingOptions sampling;
  std::vector<std::string> stop;  ///< a text ends before the first of these
  /// A smaller model of the same tokenizer that proposes tokens, or null: the texts stay the same.
  std::shared_ptr<LanguageModel> draft;
  std::int64_t draft_tokens = 4;  ///< proposed at a time
};

/// What ended a text.
enum class Finish {
  end_of_document,
  length,       ///< max_tokens
  context,      ///< the model is meant for no longer sequences
  stop,         ///< a stop string
  interrupted,  ///< the listener ended the text
};
/// "end-of-document", "length", "context", "stop" or "interrupted".
std::string_view name(Finish finish);

struct Completion {
  std::size_t prompt = 0;       ///< index among the prompts
  std::int64_t sample = 0;      ///< of that prompt, from 0
  std::vector<TokenId> tokens;  ///< the generated tokens, without the end of a document
  std::string text;             ///< without the prompt
  Finish finish = Finish::interrupted;
};

struct GenerationSpeed {
  std::int64_t prompt_tokens = 0;  ///< with those that begin a sequence
  double prompt_seconds = 0;
  std::int64_t steps_tokens = 0;  ///< read after the prompts, by steps of one token a sequence
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
