// Hand-off: a ReLU-routed model becomes one of k experts per token by a softmax, which other
// programs compute. Training it on is `penstock train`'s matter, writing it for them
// `penstock export`'s.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/file_system.h"
#include "penstock/convert/conversion_progress.h"
#include "penstock/convert/gate_fit.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// What the gates of the chosen experts are.
enum class HandoffGates {
  kept,  ///< a softmax over the k kept logits: they sum to one
  all,   ///< probabilities over all experts, of which k are kept as they are
};
constexpr std::array<std::string_view, 2> words(HandoffGates) { return {"kept", "all"}; }

struct HandoffOptions {
  std::string model;                  ///< what open_model_source opens
  double k = 0;                       ///< before granularity; 0: the parent's, rounded
  std::optional<HandoffGates> gates;  ///< nothing: what comes nearer
  std::string calibration;            ///< a corpus, or a text file for the model's tokenizer
  std::int64_t calibration_tokens = 16384;
};

/// What was done, for people and for handoff.json.
struct HandoffReport {
  ModelConfig config;
  HandoffGates gates = HandoffGates::kept;
  std::vector<GateFit> layers;  ///< [L], of those gates
  double other_error = 0;       ///< mean error of the other gates; 0 where they were given
  std::int64_t fitted_tokens = 0, measured_tokens = 0;
  double parent_loss = 0, loss = 0;  ///< nats per token, on other windows than those of the fit
  double parent_active = 0;          ///< experts per token of the parent there
  std::string without_tokenizer;     ///< why none was copied; "": it was
};

/// Mean error over layers.
double mean_error(const std::vector<GateFit>& layers);

/// Throws Error where the model's gates are not ReLU's, it is no SwiGLU decoder, its choice has a
/// bias, or its routers are not one matrix.
void check_can_hand_off(const ModelConfig& config);

/// Writes the model directory `out`, complete or absent: the parent's weights, but for routers
/// β·W, last matrices of experts α·D (fit_gates), and balancers, which are top-k's.
/// The factors are fitted layer by layer on half of the calibration windows, with the parent's
/// inputs; both models' losses are measured on the other half.
/// The same arguments give the same files. Memory: the parent as a model, then the result.
/// Throws Error where `out` exists, k is no whole number of experts, the text is too short, and for
/// everything that check_can_hand_off() and folded_gates() refuse.
HandoffReport hand_off(const HandoffOptions& options, FileSystem& fs, const std::string& out,
                       const ConversionProgress& progress = {});

/// The report under the names of docs/export.md.
nlohmann::ordered_json to_json(const HandoffReport& report);

}  // namespace penstock
