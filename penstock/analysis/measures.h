// Everything `penstock analyse` measures of one model at one moment of its training.
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
  EvaluateOptions reading;           ///< how entropy and load read the split; its taps are replaced
  std::int64_t probe_tokens = 256;   ///< of similarity
  bool by_token = false;             ///< also count experts by token and by frequency
  std::int64_t gradient_tokens = 0;  ///< of the routers' gradients; 0: these are left out
  std::int64_t step = 0, total_steps = 0;  ///< of training, for the routers' gradients
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
  /// The folded router, [E, d] and [E], f64; undefined where it does not fold or has no bias.
  at::Tensor router, router_bias;
};

struct ModelMeasures {
  double loss = 0;  ///< nats per token of what was read
  std::int64_t tokens = 0;
  std::vector<LayerMeasures> layers;
  std::vector<DomainRouting> domains;  ///< empty where nothing is assigned
  /// Asked for, and where something is assigned.
  std::optional<TokenExperts> by_token;
  std::optional<FrequencyReport> by_frequency;
  Probe probe;
};

/// One evaluation of the split, and the probe, in evaluation mode; and, where asked for, the
/// routers' gradients.
ModelMeasures measure(LanguageModel& model, const Corpus& corpus, const MeasureOptions& options);

}  // namespace penstock::analysis
