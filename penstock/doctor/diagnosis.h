// The findings of the doctor's checks of a model, and their remedies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

enum class CheckState { ok, warning, fault };

/// The result of one check.
struct Check {
  std::string name;
  CheckState state = CheckState::ok;
  std::string finding;
  std::string remedy;  ///< empty if nothing is wrong
};

/// Figures of one MoE layer's routing of the sample.
struct LayerFigures {
  std::int64_t layer = 0;                  ///< index among the MoE layers
  std::int64_t model_layer = 0;            ///< index among all layers
  double entropy = 0;                      ///< of softmax(logits), mean over tokens, nats
  double active = 0;                       ///< experts per token
  double gate_sum = 0;                     ///< sum of a token's gates, mean over tokens
  double least_gates = 0, most_gates = 0;  ///< smallest and largest sum of a token's gates
  double largest_share = 0;                ///< largest share of assignments; 1 / E for an even load
  /// exp of the load's entropy: E for an even load, `active` for a collapsed one.
  double load_experts = 0;
  std::int64_t idle = 0;         ///< experts without a token
  std::int64_t nearly_idle = 0;  ///< experts below a tenth of an even share of the assignments
  double logit_sd = 0;
  /// Largest difference of folded and unfolded logits ÷ the largest logit; -1: no folding.
  double fold_error = -1;
};

/// One term of the first training step's loss.
struct TermFigures {
  std::string name;  ///< "cross-entropy", or the part that adds it
  double loss = 0;   ///< sum over all layers
  double gradient_norm = 0;
};

struct Diagnosis {
  std::vector<Check> checks;
  std::vector<LayerFigures> layers;
  std::vector<TermFigures> objective;  ///< the cross-entropy first

  void add(std::string name, CheckState state, std::string finding, std::string remedy = {}) {
    checks.push_back({std::move(name), state, std::move(finding), std::move(remedy)});
  }
  CheckState worst() const {
    CheckState state = CheckState::ok;
    for (const Check& check : checks)
      if (static_cast<int>(check.state) > static_cast<int>(state)) state = check.state;
    return state;
  }
};

}  // namespace penstock
