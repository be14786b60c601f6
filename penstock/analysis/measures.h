// All measurements of `penstock analyse` on one model at one step of its training.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "penstock/analysis/domains.h"
#include "penstock/analysis/entropy.h"
#include "penstock/analysis/expert_load.h"
#include "penstock/analysis/frequency.h"
#include "penstock/analysis/probe.h"
#include "penstock/analysis/router_gradient.h"
#include "penstock/data/corpus/corpus.h"
#include "penstock/eval/perplexity.h"
#include "penstock/models/language_model.h"

namespace penstock::analysis {

struct MeasureOptions {
  /// settings for reading the split for entropy and load; the taps are replaced
  EvaluateOptions reading;
  std::int64_t probe_tokens = 256;         ///< tokens for similarity
  bool by_token = false;                   ///< also count experts by token id and by frequency
  std::int64_t gradient_tokens = 0;        ///< tokens for the routers' gradients; 0: no gradients
  std::int64_t step = 0, total_steps = 0;  ///< step of training, for the gradients
};

/// Mean off-diagonal similarity of a layer's experts; similarity.h has the formulas.
struct ExpertSimilarity {
  double output_cosine = 0, output_cka = 0, weight_cosine = 0;
};

struct LayerMeasures {
  std::optional<Moments> entropy;  ///< over the split's tokens, nats
  std::optional<ExpertLoad> load;
  ExpertSimilarity similarity;
  std::optional<RouterGradient> gradient;
  /// The folded router's matrix [E, d] and bias [E], f64. Both are undefined if the router does not
  /// fold; the bias is undefined if there is none.
  at::Tensor router, router_bias;
};

struct ModelMeasures {
  double loss = 0;  ///< nats per token of the split
  std::int64_t tokens = 0;
  std::vector<LayerMeasures> layers;
  std::vector<DomainRouting> domains;  ///< empty if the router assigns no tokens
  /// Present if MeasureOptions::by_token is set and the router assigns tokens.
  std::optional<TokenExperts> by_token;
  std::optional<FrequencyReport> by_frequency;
  Probe probe;
};

/// Evaluates the split and probes the model, both in evaluation mode. Also measures the routers'
/// gradients if options.gradient_tokens > 0 and the router has them.
ModelMeasures measure(LanguageModel& model, const Corpus& corpus, const MeasureOptions& options);

}  // namespace penstock::analysis
