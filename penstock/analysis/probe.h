// What each MoE layer sees and does on a few tokens of a split: its inputs, its router's logits and
// gates, its experts' outputs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/data/corpus/corpus.h"
#include "penstock/models/language_model.h"

namespace penstock::analysis {

struct LayerProbe {
  at::Tensor hidden;  ///< [N, d], what router and experts were given
  at::Tensor logits;  ///< [N, E]; undefined where pooled rows are scored
  at::Tensor gates;   ///< [N, E], the plan's weights, 0 where off; undefined for a merging plan
};

struct Probe {
  std::vector<std::int64_t> tokens;   ///< [N] ids
  std::vector<std::string> contexts;  ///< [N], text up to and with the token, its last bytes
  std::vector<LayerProbe> layers;
};

struct ProbeOptions {
  Split split = Split::kTest;
  std::int64_t tokens = 256;           ///< N, evenly spaced; fewer in a short split
  std::int64_t sequence_length = 256;  ///< of the windows they stand in, without memory
  RoutingContext context;
};

/// Runs the first windows of the split that hold so many tokens, without gradient, in evaluation
/// mode.
Probe probe(LanguageModel& model, const Corpus& corpus, const ProbeOptions& options);

/// A plan's weights by token and expert, [T, E], 0 where off. REQUIRES: the plan does not merge.
at::Tensor dense_gates(const Plan& plan);

/// All parameters of each expert as one row, [E, n], without gradient.
at::Tensor parameter_rows(const Experts& experts);

}  // namespace penstock::analysis
