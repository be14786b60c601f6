// Measures how much the best choice of experts would lower the loss. Layer by layer, an oracle
// gives each token the k experts that predict its target best. No router can do this, because the
// oracle sees the target. The oracle's gain bounds the gain of any other choice of experts with the
// same gate values.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "penstock/eval/perplexity.h"

namespace penstock {

/// The most choices of k of E experts that are tried in a layer.
inline constexpr std::int64_t kMostOracleChoices = 512;

/// The most tokens that the oracle is run on.
inline constexpr std::int64_t kOracleTokens = 16384;

/// Why an oracle cannot choose this model's experts, without a full stop; "" if it can.
std::string why_no_oracle(const ModelConfig& config);

/// Throws a one-line Error if why_no_oracle gives a reason.
void check_oracle(const ModelConfig& config);

/// The oracle's result in one layer.
struct OracleLayer {
  std::int64_t layer = 0;        ///< index among the layers with experts
  std::int64_t model_layer = 0;  ///< index among all layers
  LossTotals total;              ///< with the oracle in this layer and in all later ones
  double changed = 0;            ///< share of the tokens that get other experts
  /// Whether no choice in this layer is better. If not, the gap is a lower bound.
  bool exact = false;
};

struct OracleRouting {
  std::int64_t k = 0;               ///< experts per token
  std::int64_t choices = 0;         ///< number of choices tried in each layer, C(E, k)
  LossTotals own;                   ///< on the same tokens, with the model's own choice
  std::vector<OracleLayer> layers;  ///< from the last layer to the first

  /// How much the oracle in all layers lowers the loss, in nats per token; never below 0.
  double gap() const;
};

/// {"k", "choices", "tokens", "own_loss", "loss", "gap", "layers": [{"layer", "model_layer",
/// "loss", "gap", "changed", "exact"}]}; a layer's loss and gap are with the oracle in the later
/// layers too.
nlohmann::ordered_json to_json(const OracleRouting& oracle);

/// Runs the oracle on at most kOracleTokens of the tokens that `options` selects, in evenly spaced
/// windows. A choice gives the token's k highest logits to the chosen experts and its other logits
/// to the other experts. Both groups keep the order of their experts, so the values of the gates do
/// not change. Layers are handled from the last to the first. In each layer all tokens are
/// run with every choice, and each token takes the choice with the lowest loss for its own target.
/// In the model's last layer the result is exact, because a token's choice affects no other token.
/// In an earlier layer attention passes the effect of a choice on to other tokens and later layers,
/// whose choices were made without it. There a sequence keeps its new choices only if its total
/// loss falls. Otherwise the half of them with the highest gains is tried, then a quarter, and so
/// on. The result is a lower bound. The model is not changed.
/// Cost: about C(E, k) + 1 passes for each layer.
/// Throws Error as check_oracle() does. @param progress  may be null
OracleRouting oracle_routing(LanguageModel& model, const Corpus& corpus,
                             const EvaluateOptions& options,
                             const std::function<void(double done)>& progress = {});

}  // namespace penstock
