// One run of a study as data: its settings, its results, and its curves thinned for drawing. It is
// not the run directory (run_reader.h makes a row from that) and not the study (results.h).
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "penstock/study/json_field.h"
#include "penstock/study/runs/rank_figures.h"

namespace penstock::study {

/// Values by [layer][expert].
using Matrix = std::vector<std::vector<double>>;

/// Standard deviation of the load over a layer's experts ÷ its mean, averaged over layers: 0 is
/// even. NaN if no layer has any load.
double imbalance(const Matrix& load);

struct DomainLoss {
  double loss = 0;  ///< nats per token
  double bits_per_byte = 0;
  double tokens = 0;

  template <class V>
  void visit(V& v) {
    v("loss", loss, Presence::required);
    v("bits_per_byte", bits_per_byte);
    v("tokens", tokens);
  }
};

/// The evaluation of a whole split: the trainer's "validation" and "test" objects.
struct Evaluation {
  double loss = 0;  ///< nats per token
  double bits_per_byte = 0;
  double tokens = 0;
  std::map<std::string, DomainLoss> by_domain;
  Matrix load;  ///< assignments of the expert ÷ tokens, [L, E]; empty for a dense model
  std::map<std::string, Matrix> load_by_domain;
  std::vector<double> active_by_layer;  ///< mean experts per token, [L]
  std::map<std::string, std::vector<double>> active_by_layer_domain;

  /// Mean of active_by_layer; nothing for a dense model.
  std::optional<double> active_experts() const;

  template <class V>
  void visit(V& v) {
    v("loss", loss, Presence::required);
    v("bits_per_byte", bits_per_byte);
    v("tokens", tokens);
    v("by_domain", by_domain);
    v("load", load, Presence::if_filled);
    v("load_by_domain", load_by_domain, Presence::if_filled);
    v("active_by_layer", active_by_layer, Presence::if_filled);
    v("active_by_layer_domain", active_by_layer_domain, Presence::if_filled);
  }
};

/// A curve over optimizer steps; steps increase.
struct Curve {
  std::vector<double> steps;
  std::vector<double> values;

  template <class V>
  void visit(V& v) {
    v("steps", steps, Presence::required);
    v("values", values, Presence::required);
  }
};

/// Each layer's sparsity over the steps after the first hundred: ReMoE's Figure 3
/// (arXiv:2412.14711). The sd divides by n, not n − 1.
struct LayerSparsity {
  static constexpr std::int64_t kWarmUp = 100;
  double steps = 0;
  std::vector<double> mean, sd;  ///< [L]

  template <class V>
  void visit(V& v) {
    v("steps", steps, Presence::required);
    v("mean", mean, Presence::required);
    v("sd", sd, Presence::required);
  }
};

/// The borders of ReMoE's stages (see stages.h); a border that was not reached is absent.
struct Stages {
  std::optional<std::int64_t> sparsifying;  ///< first step of stage II
  std::optional<std::int64_t> settled;      ///< first step of stage III
};

/// A quantity's mean over each stage; absent for a stage that was not reached or has no step.
struct StageMeans {
  std::optional<double> first, second, third;

  template <class V>
  void visit(V& v) {
    v("stage_1", first);
    v("stage_2", second);
    v("stage_3", third);
  }
};

/// A regulariser before its weight, and their product: ReMoE's L_reg and λ·L_reg.
struct StageRegulariser {
  StageMeans unweighted, weighted;

  template <class V>
  void visit(V& v) {
    v("unweighted", unweighted);
    v("weighted", weighted);
  }
};

/// Whether the curves include the state with which a balancer steers the sparsity.
bool steered(const std::map<std::string, Curve>& curves);

/// One finished (or, in a report of a single run, unfinished) run.
struct RunRow {
  std::string variant;
  std::string label;
  std::int64_t seed = 0;
  std::string config_hash;
  bool finished = false;
  std::int64_t steps = 0;
  double total_parameters = 0;
  double active_parameters = 0;
  double flops_per_token = 0;
  double total_flops = 0;  ///< useful training FLOPs of all steps
  double tokens_per_second = 0;
  double share_of_peak = 0;
  double peak_bytes = 0;
  double seconds = 0;
  double peak_flops = 0;  ///< measured FMA peak of the machine, FLOP/s
  std::string machine;
  std::string finished_at;  ///< date, UTC
  bool causal = true;       ///< false: the losses profit from later tokens (ModelConfig::causal)
  /// losses were computed with thresholds in place of training's choice of tokens
  bool by_thresholds = false;
  std::optional<double> target_sparsity;
  std::optional<Evaluation> validation;
  std::optional<Evaluation> test;
  std::optional<RankFigures> ranks;                ///< of several processes
  std::optional<LayerSparsity> sparsity_by_layer;  ///< if the run is longer than kWarmUp
  /// Additional measurements, under their names in results.json (see measurement.h).
  nlohmann::json measured = nlohmann::json::object();
  std::vector<std::string> warnings;  ///< the trainer's warnings
  Stages stages;
  std::optional<StageRegulariser> regulariser;  ///< if the run has stages and logs both
  /// The curves that the run has, by name: "loss", "validation_loss" (with step 0),
  /// "learning_rate", "grad_norm", "tokens_per_second", "sparsity", "active_experts", "imbalance"
  /// of the load, the balancers' logs, "consistency", "auxiliary_losses/NAME". Runs of several
  /// processes: "communication" (share of the step), "rank_seconds" and "rank_load" (the largest
  /// rank's value ÷ the mean). Totals up to a step: "flops", "seconds".
  std::map<std::string, Curve> curves;
  /// The resolved recipe, "model.d_model" → "256".
  std::map<std::string, std::string> settings;

  /// Whether a regulariser steers the sparsity to a target.
  bool steered() const { return target_sparsity && study::steered(curves); }
  /// Tokens in a step, from the settings; 0 if they do not give it.
  double tokens_per_step() const;
  /// The index in the whole model of MoE layer `l`, both from 0; `l` if there are no settings.
  std::int64_t model_layer(std::size_t l) const;

  /// The fields that the trainer's finished.json has under the same names.
  template <class V>
  void visit_figures(V& v) {
    v("steps", steps);
    v("total_parameters", total_parameters);
    v("active_parameters", active_parameters);
    v("flops_per_token", flops_per_token);
    v("tokens_per_second", tokens_per_second);
    v("share_of_peak", share_of_peak);
    v("peak_bytes", peak_bytes);
    v("seconds", seconds);
    v("peak_flops", peak_flops);
    v("machine", machine);
    v("causal", causal);
    v("by_thresholds", by_thresholds);
    v("target_sparsity", target_sparsity);
    v("validation", validation);
    v("test", test);
  }
  /// All fields but `measured`.
  template <class V>
  void visit(V& v) {
    v("variant", variant, Presence::required);
    v("label", label);
    v("seed", seed, Presence::required);
    v("config_hash", config_hash);
    v("finished", finished);
    visit_figures(v);
    v("total_flops", total_flops);
    v("finished_at", finished_at);
    v("sparsifying_step", stages.sparsifying);
    v("settled_step", stages.settled);
    v("regulariser", regulariser, Presence::if_filled);
    v("warnings", warnings);
    v("ranks", ranks, Presence::if_filled);
    v("sparsity_by_layer", sparsity_by_layer, Presence::if_filled);
    v("curves", curves);
    v("settings", settings);
  }
};

/// The prefix of the names of auxiliary losses' curves.
inline const std::string kAuxiliaryLosses = "auxiliary_losses/";
/// The router part whose loss the curve shows; nothing if the curve does not show an auxiliary
/// loss.
std::optional<std::string> auxiliary_loss(const std::string& curve);

}  // namespace penstock::study
