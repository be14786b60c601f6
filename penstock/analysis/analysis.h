// The whole result of `penstock analyse` for a model or a run: the measures of each kept
// checkpoint, ranks of Jacobians, the growth of the routers' span, sample tokens.
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

/// The model at one step of its training. The probes of all snapshots use the same tokens.
struct Snapshot {
  /// 0: before training; none: the model is not a checkpoint of a run.
  std::optional<std::int64_t> step;
  ModelMeasures measures;
};

/// The growth of the span of one layer's router over the snapshots, for tokens with k experts.
struct LayerGrowth {
  std::int64_t k = 0;  ///< 0 if the number of experts varies
  /// The upper bound of the rank of one router's ∂g/∂x at one token; 0 if k varies.
  std::int64_t bound = 0;
  SpanGrowth growth;
};

/// A token's distributions over the experts, by layer.
struct SampleToken {
  std::int64_t token = 0;
  std::string context;                             ///< the text that ends with the token
  std::vector<std::vector<double>> probabilities;  ///< [L][E], softmax of the logits
  std::vector<std::vector<double>> gates;          ///< [L][E], the weights in the plan
};

/// The share of the experts' states (on or off) that differ between two snapshots, on the same
/// tokens.
struct FlipsBetween {
  std::int64_t from = 0, to = 0;  ///< steps
  std::vector<double> layers;     ///< [L], share of a layer's states that differ
  double rate = 0;  ///< share over all layers: ReMoE's flip rate (Eq. 14), but over many updates
};

/// The token lists of one expert.
struct ExpertTokens {
  std::vector<ListedToken> commonest;  ///< value: share of the expert's assignments
  std::vector<ListedToken> surest;     ///< value: share of the token's occurrences
};

struct Analysis {
  std::string model, split;
  ModelConfig config;
  Refusals refused;
  /// Why there are no flips, and why domains are not compared; "" if the analysis has them.
  std::string no_flips, one_domain;
  std::vector<Snapshot> snapshots;  ///< by step
  std::size_t chosen = 0;           ///< index of the snapshot that the fields below describe
  std::vector<SampleToken> samples;
  std::vector<std::vector<JacobianSummary>> jacobians;  ///< [L][k]
  std::vector<std::vector<LayerGrowth>> growth;         ///< [L][k]; empty for one snapshot
  std::int64_t flip_tokens = 0;                         ///< tokens on which flips are counted
  std::vector<FlipsBetween> flips;                 ///< between each snapshot and the previous one
  std::vector<std::vector<ExpertTokens>> experts;  ///< [L][E]

  const Snapshot& here() const { return snapshots.at(chosen); }
  /// The index among all layers of MoE layer `l`. The L of the fields above counts MoE layers only.
  std::int64_t model_layer(std::size_t l) const { return config.moe_layer_indices().at(l); }
};

/// The distributions of `count` evenly spaced tokens of the probe. Empty if a layer has no logits
/// or gates of single tokens.
std::vector<SampleToken> sample_tokens(const Probe& probe, std::int64_t count);

/// Summaries over `tokens` tokens of the probe. With top-k there is one for each of k = 1, 2, 4,
/// .. E and the model's own k; with relu there is one. REQUIRES: refusals().jacobian is "".
std::vector<std::vector<JacobianSummary>> jacobians(LanguageModel& model, const Probe& probe,
                                                    std::int64_t tokens);

/// For the same values of k as jacobians(), at tokens of the chosen snapshot's probe.
std::vector<std::vector<LayerGrowth>> growth(const Analysis& analysis, std::int64_t tokens);

/// Token lists by layer and expert, each with at most `most` tokens. REQUIRES: the model was
/// measured with MeasureOptions::by_token.
std::vector<std::vector<ExpertTokens>> expert_tokens(const TokenExperts& counted,
                                                     const Tokenizer& tokenizer, std::size_t most);

/// Compares the experts' states of two snapshots.
/// @param before, after  [L, T, E] bool, the experts' states at the steps `from` and `to`
FlipsBetween flips_between(std::int64_t from, const at::Tensor& before, std::int64_t to,
                           const at::Tensor& after);

/// The analysis as JSON. docs/analysis.md lists the names.
nlohmann::ordered_json to_json(const Analysis& analysis);

}  // namespace penstock::analysis
