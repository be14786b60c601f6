// The doctor's look at what the model computes beside its dense parent.
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>

#include "penstock/convert/doctor.h"

namespace penstock::doctor {
namespace {

constexpr std::int64_t kLogitTokens = 256;  // of the vocabulary's width each
constexpr double kTolerance = 1e-4;         // of the largest logit

struct View {
  at::Tensor logits;  // [t, V]
  double loss = 0;
};

/// Logits of the first tokens and the mean loss of all.
View view_of(LanguageModel& model, const at::Tensor& windows, std::int64_t k) {
  const torch::NoGradGuard no_grad;
  View out;
  double sum = 0;
  std::int64_t tokens = 0;
  for (std::int64_t row = 0; row < windows.size(0); ++row) {
    const at::Tensor ids = windows.slice(0, row, row + 1);  // [1, L]
    const at::Tensor hidden = model.forward({.tokens = ids}, {.k = k}).hidden;
    const std::int64_t scored = ids.size(1) - 1;
    if (row == 0)
      out.logits = model.logits(hidden.slice(0, 0, std::min(ids.size(1), kLogitTokens)));
    if (scored == 0) continue;
    sum += model.loss(hidden.slice(0, 0, scored), ids[0].slice(0, 1)).item<double>() *
           static_cast<double>(scored);
    tokens += scored;
  }
  out.loss = sum / static_cast<double>(std::max<std::int64_t>(1, tokens));
  return out;
}

double relative(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max().clamp_min(1e-30)).item<double>();
}

/// Whether all experts under gates that sum to one must give the dense result.
bool must_agree(const ModelConfig& config, const ExpertRelation& relation) {
  if (!relation.parent || !relation.silent_shared) return false;
  return relation.copies || (relation.scale == ShardScale::exact &&
                             shard_scale(config) == static_cast<double>(config.moe.granularity));
}

}  // namespace

DenseView view_dense(LanguageModel& dense, const at::Tensor& windows) {
  const View view = view_of(dense, windows, 0);
  return {.logits = view.logits, .loss = view.loss};
}

void check_logits(LanguageModel& model, const DenseView& dense, const ExpertRelation& relation,
                  const at::Tensor& windows, Diagnosis& diagnosis) {
  const ModelConfig& config = model.config();
  if (resolve(config.router).traits.takes_highest) {
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
  const View own = view_of(model, windows, 0);
  const double off = relative(own.logits, dense.logits);
  if (std::isfinite(own.loss) && std::isfinite(off))
    diagnosis.add("as configured", CheckState::ok,
                  fmt::format("loss {:.4f}, the parent's {:.4f}; largest difference {:.2g} of the "
                              "largest logit",
                              own.loss, dense.loss, off));
  else
    diagnosis.add("as configured", CheckState::fault, "the loss is not finite",
                  "look at gate sums and finite weights below and above");
}

}  // namespace penstock::doctor
