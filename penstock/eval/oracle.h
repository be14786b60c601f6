// What the best choice of experts would be worth: every token of a model with k experts given,
// layer by layer, those that predict its target best. The oracle sees the target, so no router can
// be it; what it gains bounds what another choice of experts can gain under the gates as they are.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "penstock/eval/perplexity.h"

namespace penstock {

/// Choices of k of E experts, at most, that are tried in a layer.
inline constexpr std::int64_t kMostOracleChoices = 512;

/// Tokens, at most, that the oracle is asked about.
inline constexpr std::int64_t kOracleTokens = 16384;

/// Why no oracle can choose this model's experts, without a full stop; "" where one can.
std::string why_no_oracle(const ModelConfig& config);

/// Throws Error, in one line, where why_no_oracle has a reason.
void check_oracle(const ModelConfig& config);

/// One layer's part in the gap.
struct OracleLayer {
  std::int64_t layer = 0;  ///< among the layers with experts
  LossTotals total;        ///< with the oracle in this layer and in those behind it
  double changed = 0;      ///< share of the tokens that it sends to other experts
  /// Whether no choice in this layer is better; the gap is a lower bound where not.
  bool exact = false;
};

struct OracleRouting {
  std::int64_t k = 0;               ///< experts per token
  std::int64_t choices = 0;         ///< tried in each layer, C(E, k)
  LossTotals own;                   ///< of the same tokens, with the model's own choice
  std::vector<OracleLayer> layers;  ///< the last first

  /// Nats per token by which all layers' oracle is better; never below 0.
  double gap() const;
};

/// {"k", "choices", "tokens", "own_loss", "loss", "gap", "layers": [{"layer", "loss", "gap",
/// "changed", "exact"}]}; a layer's loss and gap are with the layers behind it.
nlohmann::ordered_json to_json(const OracleRouting& oracle);

/// On kOracleTokens of what `options` would measure, in evenly spaced windows. A choice puts the
/// token's k highest logits, in their order, on the chosen experts, and the rest, in their order,
/// on the others: gates stay the numbers that they are. From the last layer to the first, all
/// tokens are tried with each choice; each keeps the one that was best for its own target. In the
/// last layer of the model that is exact: a token's choice there reaches no other token. In a layer
/// before it, attention carries a choice to other tokens and to choices behind it that were made
/// without it, so a sequence keeps the new choices where its whole loss falls, and else half of
/// them, those of the highest gain, and so on: a lower bound. The model stays as it is.
/// Cost: about C(E, k) + 1 passes for each layer.
/// Throws Error as check_oracle() does. @param progress  may be null
OracleRouting oracle_routing(LanguageModel& model, const Corpus& corpus,
                             const EvaluateOptions& options,
                             const std::function<void(double done)>& progress = {});

}  // namespace penstock
