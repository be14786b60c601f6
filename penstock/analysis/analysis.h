// What `penstock analyse` says of a model or a run, put together: measures over the kept
// checkpoints, the Jacobian's ranks, the growth of the routers' span, samples.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "penstock/analysis/jacobian.h"
#include "penstock/analysis/measures.h"
#include "penstock/analysis/refusals.h"
#include "penstock/analysis/span_growth.h"

namespace penstock::analysis {

/// The model at one step of its training; probes of all stand on the same tokens.
struct Snapshot {
  std::optional<std::int64_t>
      step;  ///< 0: as its seed initialised it; none: a model from elsewhere
  ModelMeasures measures;
};

/// Span of one layer's routers over the snapshots, for tokens sent to k experts.
struct LayerGrowth {
  std::int64_t k = 0;      ///< 0 where the number varies
  std::int64_t bound = 0;  ///< on the rank of one router's ∂g/∂x at one token; 0 where it varies
  SpanGrowth growth;
};

/// A token's distributions over the experts, by layer.
struct SampleToken {
  std::int64_t token = 0;
  std::string context;                             ///< text up to and with it
  std::vector<std::vector<double>> probabilities;  ///< [L][E], softmax of the logits
  std::vector<std::vector<double>> gates;          ///< [L][E], the plan's weights
};

/// Experts' states that differ between two snapshots, on the same tokens.
struct FlipsBetween {
  std::int64_t from = 0, to = 0;  ///< steps
  std::vector<double> layers;     ///< [L], share of a layer's states
  double rate = 0;                ///< of all: ReMoE's flip rate (Eq. 14), but over many updates
};

/// What is listed of one expert.
struct ExpertTokens {
  std::vector<ListedToken> commonest;  ///< value: share of the expert's assignments
  std::vector<ListedToken> surest;     ///< value: share of the token's places
};

struct Analysis {
  std::string model, split;
  ModelConfig config;
  Refusals refused;
  /// Why these say nothing though a router's load is defined; "" where they do.
  std::string no_flips, one_domain;
  std::vector<Snapshot> snapshots;  ///< by step
  std::size_t chosen = 0;           ///< the snapshot that the rest is of
  std::vector<SampleToken> samples;
  std::vector<std::vector<JacobianSummary>> jacobians;  ///< [L][k]
  std::vector<std::vector<LayerGrowth>> growth;         ///< [L][k]; empty for one snapshot
  std::int64_t flip_tokens = 0;                         ///< that flips are of
  std::vector<FlipsBetween> flips;                      ///< of each snapshot and the one before
  std::vector<std::vector<ExpertTokens>> experts;       ///< [L][E]

  const Snapshot& here() const { return snapshots.at(chosen); }
};

/// Distributions of `count` of the probe's tokens, evenly spaced. Empty where layers have no logits
/// of single tokens.
std::vector<SampleToken> sample_tokens(const Probe& probe, std::int64_t count);

/// Summaries at `tokens` of the probe's tokens: with top-k for k = 1, 2, 4, .. E and the model's
/// own, with relu one. REQUIRES: refusals().jacobian is "".
std::vector<std::vector<JacobianSummary>> jacobians(LanguageModel& model, const Probe& probe,
                                                    std::int64_t tokens);

/// The same k as jacobians(), at tokens of the chosen snapshot's probe.
std::vector<std::vector<LayerGrowth>> growth(const Analysis& analysis, std::int64_t tokens);

/// `most` tokens of each list, by layer and expert. REQUIRES: measured by token.
std::vector<std::vector<ExpertTokens>> expert_tokens(const TokenExperts& counted,
                                                     const Tokenizer& tokenizer, std::size_t most);

/// Of states [L, T, E] at two steps.
FlipsBetween flips_between(std::int64_t from, const at::Tensor& before, std::int64_t to,
                           const at::Tensor& after);

/// The names that docs/analysis.md lists.
nlohmann::ordered_json to_json(const Analysis& analysis);

}  // namespace penstock::analysis
