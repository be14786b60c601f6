// The doctor's comparison of the model's logits and loss with those of its dense parent.
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <ranges>

#include "penstock/convert/window_passes.h"
#include "penstock/doctor/doctor.h"

namespace penstock::doctor {
namespace {

constexpr std::int64_t kLogitTokens = 256;  // tokens whose logits are compared
constexpr double kTolerance = 1e-4;         // largest difference ÷ largest logit
constexpr double kWorse = 0.1;              // nats above the parent's loss

struct View {
  at::Tensor logits;  // [t, V]
  double loss = 0;
};

/// The logits of the first tokens, and the mean loss of all tokens.
View view_of(LanguageModel& model, const at::Tensor& windows, std::int64_t k) {
  View out;
  double sum = 0;
  std::int64_t tokens = 0;
  run_over_windows(model, windows, 1, [&](const at::Tensor& ids) {  // [1, L]
    const at::Tensor hidden = model.forward({.tokens = ids}, {.k = k}).hidden;
    const std::int64_t scored = ids.size(1) - 1;
    if (!out.logits.defined())
      out.logits = model.logits(hidden.slice(0, 0, std::min(ids.size(1), kLogitTokens)));
    if (scored == 0) return;
    sum += model.loss(hidden.slice(0, 0, scored), ids[0].slice(0, 1)).item<double>() *
           static_cast<double>(scored);
    tokens += scored;
  });
  out.loss = sum / static_cast<double>(std::max<std::int64_t>(1, tokens));
  return out;
}

double relative(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max().clamp_min(1e-30)).item<double>();
}

/// Whether the model with all experts on and gates that sum to one must give the parent's logits.
bool must_agree(const ModelConfig& config, const ExpertRelation& relation) {
  if (!relation.parent || !relation.silent_shared) return false;
  return relation.copies || (relation.scale == ShardScale::exact &&
                             shard_scale(config) == static_cast<double>(config.moe.granularity));
}

/// "; a token's gates sum to 0.28 to 0.55 in the mean by layer"; "" without gates.
std::string gate_sums_text(const std::vector<LayerFigures>& layers) {
  const auto sums = layers | std::views::transform([](const auto& l) { return l.gate_sum; });
  if (layers.empty() || std::ranges::max(sums) == 0) return {};
  return fmt::format("; a token's gates sum to {:.3g} to {:.3g} in the mean by layer",
                     std::ranges::min(sums), std::ranges::max(sums));
}

/// How to make an upcycled model start closer to its parent.
std::string remedy_for_start(const RouterTraits& traits) {
  if (traits.gates == GateForm::relu)
    return "the gates grow with the logits: `penstock upcycle --start parent --calibration TEXT` "
           "makes them sum to one in the mean, and a method whose gates a softmax makes begins as "
           "its parent; otherwise training has to make up for it";
  if (!traits.unit_gates)
    return "`penstock upcycle --start parent` with two or more experts per token makes gates sum "
           "to one; otherwise training has to make up for it";
  return "gates sum to one, so something else is not the parent's: see experts, virtual groups and "
         "other weights";
}

/// Compares the model as configured with its parent.
void judge_start(const ModelConfig& config, const View& own, const DenseView& dense,
                 Diagnosis& diagnosis) {
  const double off = relative(own.logits, dense.logits);
  if (!std::isfinite(own.loss) || !std::isfinite(off))
    return diagnosis.add("as configured", CheckState::fault, "the loss is not finite",
                         "look at gate sums and finite weights above");
  const std::string finding = fmt::format(
      "loss {:.4f}, the parent's {:.4f}; largest difference {:.2g} of the largest logit{}",
      own.loss, dense.loss, off, gate_sums_text(diagnosis.layers));
  if (own.loss <= dense.loss + kWorse)
    return diagnosis.add("as configured", CheckState::ok, finding);
  diagnosis.add("as configured", CheckState::warning, finding, remedy_for_start(config.traits()));
}

}  // namespace

DenseView view_dense(LanguageModel& dense, const at::Tensor& windows) {
  const View view = view_of(dense, windows, 0);
  return {.logits = view.logits, .loss = view.loss};
}

void check_logits(LanguageModel& model, const DenseView& dense, const ExpertRelation& relation,
                  const at::Tensor& windows, Diagnosis& diagnosis) {
  const ModelConfig& config = model.config();
  const RouterTraits traits = config.traits();
  if (traits.takes_highest && traits.gates != GateForm::other) {
    const View all = view_of(model, windows.slice(0, 0, 1), config.total_experts());
    const double off = relative(all.logits, dense.logits);
    const std::string finding = fmt::format(
        "all experts on, gates sum to one: largest difference {:.2g} of the largest "
        "logit",
        off);
    const bool finite = std::isfinite(off);
    if (finite && (!must_agree(config, relation) || off <= kTolerance))
      diagnosis.add("dense logits", CheckState::ok, finding);
    else
      diagnosis.add("dense logits", CheckState::fault, finding,
                    finite
                        ? "experts and the rest are the parent's, yet the result is not: compare "
                          "rotary positions, norms and the order of gate and up"
                        : "the model computes NaN; see finite weights");
  }
  judge_start(config, view_of(model, windows, 0), dense, diagnosis);
}

}  // namespace penstock::doctor
