// Records, for a few tokens of a split, each MoE layer's inputs and its router's logits and gates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/data/corpus/corpus.h"
#include "penstock/models/language_model.h"

namespace penstock::analysis {

struct LayerProbe {
  at::Tensor hidden;  ///< [N, d], the input of the router and the experts
  at::Tensor logits;  ///< [N, E]; undefined if tokens have no logits of their own
  at::Tensor gates;   ///< [N, E], the plan's weights, 0 if off; undefined if the plan merges
};

struct Probe {
  std::vector<std::int64_t> tokens;   ///< [N] ids
  std::vector<std::string> contexts;  ///< [N], the last bytes of the text that ends with the token
  std::vector<LayerProbe> layers;
};

struct ProbeOptions {
  Split split = Split::kTest;
  std::int64_t tokens = 256;           ///< N, evenly spaced; fewer in a short split
  std::int64_t sequence_length = 256;  ///< of the windows that hold the tokens, without memory
  RoutingContext context;
};

/// Runs windows of the split with about options.tokens tokens, in evaluation mode and without
/// gradient, and records evenly spaced tokens.
Probe probe(LanguageModel& model, const Corpus& corpus, const ProbeOptions& options);

/// A plan's weights by token and expert, [T, E], 0 for an expert that is off. REQUIRES: the plan
/// does not merge.
at::Tensor dense_gates(const Plan& plan);

/// One row per expert with all its parameters, [E, n], without gradient.
at::Tensor parameter_rows(const Experts& experts);

}  // namespace penstock::analysis
