// penstock eval MODEL --data CORPUS: a model's loss on a split, by domain and by experts per token.
#pragma once

#include <string>

#include "penstock/train/evaluation_settings.h"

namespace penstock {

struct EvalCorpusOptions {
  std::string model, data, tokenizer, plot;
  EvaluationOverrides overrides;
  std::string k;       ///< "1,2,4"
  bool has_k = false;  ///< whether --k is given; an empty list is an error
  std::string active;  ///< "0.5,1,2"
  bool has_active = false;
  bool oracle = false;  ///< also measure the oracle choice of experts
  bool json = false, fold = false, as_trained = false;
};

/// Prints loss, perplexity and bits per byte, and draws `plot`.
void run_eval_corpus(const EvalCorpusOptions& options);

/// Prints the same three figures for an n-gram model that is counted on the train split. It scores
/// every token of `split` but the first.
void run_eval_ngram(const std::string& data, int order, Split split, bool json);

}  // namespace penstock
