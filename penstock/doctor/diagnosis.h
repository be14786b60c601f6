// What a check of a model found, and what to do about it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

enum class CheckState { ok, warning, fault };

/// One thing that was looked at.
struct Check {
  std::string name;
  CheckState state = CheckState::ok;
  std::string finding;
  std::string remedy;  ///< empty where nothing is wrong
};

/// What one MoE layer does with the sample.
struct LayerFigures {
  std::int64_t layer = 0;                  ///< of the MoE layers
  double entropy = 0;                      ///< mean over tokens of softmax(logits)'s, nats
  double active = 0;                       ///< experts per token
  double gate_sum = 0;                     ///< mean
  double least_gates = 0, most_gates = 0;  ///< of a token
  double largest_share = 0;                ///< of assignments to one expert, 1 / E when even
  double load_experts = 0;  ///< exp of the load's entropy: E when even, `active` when collapsed
  std::int64_t idle = 0;    ///< experts without a token
  std::int64_t nearly_idle = 0;  ///< experts below a tenth of an even share of the assignments
  double logit_sd = 0;
  double fold_error = -1;  ///< folded against unfolded logits, of the largest; -1: does not fold
};

/// A term of the first training loss by itself.
struct TermFigures {
  std::string name;  ///< "cross-entropy", or the part that adds it
  double loss = 0;   ///< over all layers
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
