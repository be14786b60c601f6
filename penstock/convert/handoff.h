// Hand-off: makes a model with ReLU routing into one with k experts per token and softmax gates,
// which other programs can compute. `penstock train` continues its training, and `penstock export`
// writes it for other programs.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/fields.h"
#include "penstock/base/file_system.h"
#include "penstock/convert/conversion_progress.h"
#include "penstock/convert/gate_fit.h"
#include "penstock/models/model_source.h"

namespace penstock {

/// The form of the chosen experts' gates.
enum class HandoffGates {
  kept,  ///< a softmax over the k kept logits; the gates sum to one
  all,   ///< probabilities over all experts; the k largest are kept unchanged
};
constexpr std::array<std::string_view, 2> words(HandoffGates) { return {"kept", "all"}; }

struct HandoffOptions {
  std::string model;  ///< a path for open_model_source
  std::string calibration;
  std::optional<std::int64_t> k;
  std::optional<HandoffGates> gates;
  std::int64_t calibration_tokens = 16384;

  template <class V>
  void visit(V& v) {
    v("calibration", calibration,
      {.help = "calibration text for the fit of the gates: a corpus, or a text file for the "
               "model's tokenizer"});
    v("k", k,
      {.help = "experts per token, before granularity; not given: the model's k, rounded",
       .min = 1});
    v("gates", gates,
      {.help = "form of the gates; kept: softmax over the k kept logits; all: probabilities over "
               "all experts; not given: the form with the smaller error against the model"});
    v("calibration_tokens", calibration_tokens,
      {.help = "tokens of the calibration text: one half for the fit, the other half for the "
               "measurement",
       .min = 2});
  }
};

/// The report of a hand-off, for people and for handoff.json.
struct HandoffReport {
  ModelConfig config;
  HandoffGates gates = HandoffGates::kept;
  std::vector<GateFit> layers;  ///< [L], the fits of `gates`
  double other_error = 0;       ///< mean error of the other kind of gates; 0 if the kind was given
  std::int64_t fitted_tokens = 0, measured_tokens = 0;
  double parent_loss = 0, loss = 0;  ///< nats per token, on other windows than those of the fit
  double parent_active = 0;          ///< experts per token of the parent on these windows
  std::string without_tokenizer;     ///< why no tokenizer was copied; "": one was copied
};

/// The mean error over layers.
double mean_error(const std::vector<GateFit>& layers);

/// Throws Error if the model's gates are not ReLU, if it is not a SwiGLU decoder, if its selection
/// has a bias, or if its routers are not a single matrix.
void check_can_hand_off(const ModelConfig& config);

/// Writes the model directory `out` atomically: the parent's weights, with routers β·W, experts'
/// last matrices α·D (fit_gates), and top-k's balancers. The factors are fitted layer by layer on
/// half of the calibration windows, with the parent's inputs; both models' losses are measured on
/// the other half. The same arguments give the same files. Memory: the parent as a model, then the
/// result.
/// Throws Error if `out` exists, if k exceeds the number of experts, or if the text is too short,
/// and as check_can_hand_off() and folded_gates() do.
HandoffReport hand_off(const HandoffOptions& options, FileSystem& fs, const std::string& out,
                       const ConversionProgress& progress = {});

/// The report as JSON, with the names of docs/export.md.
nlohmann::ordered_json to_json(const HandoffReport& report);

}  // namespace penstock
