// The doctor's check of weights: whether they are finite, and whether they match the parent's.
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "penstock/doctor/doctor.h"
#include "penstock/models/module_names.h"

namespace penstock::doctor {
namespace {

constexpr const char* kMakeAgain = "upcycle the parent again";

std::string sample_of(const std::vector<std::string>& names) {
  std::string out = names.front();
  if (names.size() > 1) out += fmt::format(" and {} more", names.size() - 1);
  return out;
}

/// The factor c and the relative residual of the best fit x ≈ c·y.
struct Fit {
  double factor = 0, rest = 0;
};
Fit fit(const at::Tensor& x, const at::Tensor& y) {
  const double xy = (x * y).sum().item<double>(), yy = y.square().sum().item<double>(),
               xx = x.square().sum().item<double>();
  if (yy == 0 || xx == 0) return {0, 1};
  const double explained = xy * xy / yy;
  return {xy / yy, std::sqrt(std::max(0.0, (xx - explained) / xx))};
}

/// One expert's matrices, and the parent's matrices from which they were made.
class ExpertView {
 public:
  ExpertView(const ModelSource& model, const ModelSource& dense, const std::string& stem,
             std::int64_t expert)
      : model_(model), dense_(dense), stem_(stem), expert_(expert) {}

  at::Tensor own(const char* part) const { return model_.tensor(name(part)); }
  /// The unscaled shard of the parent's matrix.
  at::Tensor parents(const char* part) const {
    return expert_tensor(name(part), dense_.tensor(parent_name(name(part))), model_.config(),
                         ShardScale::none);
  }
  std::string name(const char* part) const {
    return stem_ + "experts." + std::to_string(expert_) + "." + part + "_proj.weight";
  }

 private:
  const ModelSource &model_, &dense_;
  std::string stem_;
  std::int64_t expert_;
};

constexpr std::array<const char*, 3> kParts = {"gate", "up", "down"};

/// Counts and names over all experts.
struct Tally {
  std::vector<std::string> swapped, strangers, unscaled;
  std::int64_t matrices = 0, equal = 0, published = 0, exact = 0;
  double distance = 0;
};

bool near(double a, double b) { return std::abs(a - b) <= 0.02 * std::abs(b); }

void compare(const ExpertView& view, double a, Tally& tally) {
  std::array<double, 3> factors{};
  bool related = true, fresh = true;
  for (std::size_t p = 0; p < kParts.size(); ++p) {
    const at::Tensor own = view.own(kParts[p]), parents = view.parents(kParts[p]);
    ++tally.matrices;
    const at::Tensor x = own.to(at::kFloat), y = parents.to(at::kFloat);
    tally.equal += x.equal(y);
    const Fit found = fit(x, y);
    factors[p] = found.factor;
    fresh = fresh && found.rest < 0.01;
    tally.distance += ((x - y).norm() / y.norm().clamp_min(1e-30)).item<double>();
    if (found.rest < 0.9) continue;
    related = false;
    const bool other =
        p < 2 && fit(x, view.parents(kParts[1 - p]).to(at::kFloat)).rest < 0.5 * found.rest;
    (other ? tally.swapped : tally.strangers).push_back(view.name(kParts[p]));
  }
  if (!related || a == 1) return;
  const double each = std::cbrt(a), root = std::sqrt(a);
  // Training changes the factors. For unscaled shards their product stays nearer to 1 than to a.
  const bool drifted = !fresh && factors[0] * factors[1] * factors[2] > root;
  if (near(factors[0], each) && near(factors[1], each) && near(factors[2], each))
    ++tally.published;
  else if (near(factors[0], 1) && near(factors[1], root) && near(factors[2], root))
    ++tally.exact;
  else if (!drifted)
    tally.unscaled.push_back(fmt::format("{} (gate, up, down times {:.3g}, {:.3g}, {:.3g})",
                                         view.name("down"), factors[0], factors[1], factors[2]));
}

/// Finds swapped matrices in a shared expert that is a copy of the parent's feed-forward. Other
/// shared experts are not judged.
void compare_shared(const ModelSource& model, const ModelSource& dense, const std::string& stem,
                    Tally& tally) {
  for (std::size_t p = 0; p < 2; ++p) {
    const auto matrix = [&](const ModelSource& source, const std::string& where, std::size_t part) {
      return source.tensor(where + kParts[part] + "_proj.weight").to(at::kFloat);
    };
    const at::Tensor own = matrix(model, stem + "shared_expert.", p);
    const double rest = fit(own, matrix(dense, stem, p)).rest;
    if (rest >= 0.9 && fit(own, matrix(dense, stem, 1 - p)).rest < 0.5 * rest)
      tally.swapped.push_back(stem + "shared_expert." + kParts[p] + "_proj.weight");
  }
}

bool same_elsewhere(const ModelSource& model, const ModelSource& dense, std::int64_t& changed) {
  changed = 0;
  for (const std::string& name : dense.names()) {
    if (name.find(".mlp.") != std::string::npos) continue;
    changed += !model.tensor(name).to(at::kFloat).equal(dense.tensor(name).to(at::kFloat));
  }
  return changed == 0;
}

/// Why the model cannot have been made from the parent, by shapes and positions; "" if it can.
std::string mismatch(const ModelConfig& a, const ModelConfig& b) {
  if (a.has_memory() || b.has_memory()) return "transformer-xl is never upcycled";
  if (a.d_model != b.d_model || a.layers != b.layers || a.d_ffn != b.d_ffn || a.vocab != b.vocab ||
      a.heads != b.heads || a.kv_heads != b.kv_heads || a.head_dim != b.head_dim ||
      a.tie_embeddings > b.tie_embeddings || a.qkv_bias != b.qkv_bias ||
      a.norm_of_qk() != b.norm_of_qk())
    return "the model and the dense one are of different shapes";
  if (a.rope_base != b.rope_base || a.rope_adjacent != b.rope_adjacent ||
      a.norm_eps != b.norm_eps || a.clip_qkv != b.clip_qkv)
    return "the model and the dense one differ in rotary positions, clip_qkv or the epsilon of "
           "norms";
  return "";
}

void check_vanishing(const ModelSource& model, Diagnosis& diagnosis) {
  std::vector<std::string> zero;
  for (const std::string& name : model.names())
    if (expert_of(name) >= 0 && model.tensor(name).count_nonzero().item<std::int64_t>() == 0)
      zero.push_back(name);
  if (zero.empty())
    diagnosis.add("experts present", CheckState::ok, "every expert has weights");
  else
    diagnosis.add("experts present", CheckState::fault, "weights are all zero: " + sample_of(zero),
                  fmt::format("{}; a dropped expert never learns", kMakeAgain));
}

}  // namespace

bool check_weights(const ModelSource& model, Diagnosis& diagnosis) {
  std::vector<std::string> bad;
  for (const std::string& name : model.names())
    if (!model.tensor(name).isfinite().all().item<bool>()) bad.push_back(name);
  if (bad.empty())
    diagnosis.add("finite weights", CheckState::ok, "no NaN, no infinity");
  else
    diagnosis.add("finite weights", CheckState::fault, "NaN or infinity in " + sample_of(bad),
                  "take an earlier checkpoint, or make the model again");
  return bad.empty();
}

bool check_parent(const ModelConfig& model, const ModelConfig& dense, Diagnosis& diagnosis) {
  const std::string reason = mismatch(model, dense);
  if (!reason.empty())
    diagnosis.add("parent", CheckState::fault, reason, "give the model that this one was made of");
  return reason.empty();
}

ExpertRelation check_experts(const ModelSource& model, const ModelSource* dense, bool scale_none,
                             Diagnosis& diagnosis) {
  check_vanishing(model, diagnosis);
  ExpertRelation out;
  if (!dense) return out;
  const ModelConfig& config = model.config();
  const double a = shard_scale(config);
  Tally tally;
  for (std::int64_t layer = 0; layer < config.layers; ++layer)
    for (std::int64_t e = 0; config.is_moe(layer) && e < config.total_experts(); ++e)
      compare({model, *dense, layer_stem(layer) + "mlp.", e}, a, tally);
  for (std::int64_t layer = 0; config.moe.shared_width > 0 && layer < config.layers; ++layer) {
    if (!config.is_moe(layer)) continue;
    const std::string stem = layer_stem(layer) + "mlp.";
    out.silent_shared = out.silent_shared &&
                        !model.tensor(stem + "shared_expert.down_proj.weight").any().item<bool>();
    if (config.moe.shared_width == config.d_ffn) compare_shared(model, *dense, stem, tally);
  }
  const std::int64_t experts = tally.matrices / 3;
  out.distance = tally.distance / static_cast<double>(tally.matrices);
  out.copies = config.moe.granularity == 1 && tally.equal == tally.matrices;
  if (a != 1 && tally.exact == experts) out.scale = ShardScale::exact;
  if (a != 1 && tally.published == experts) out.scale = ShardScale::published;
  std::int64_t changed = 0;
  out.parent = same_elsewhere(model, *dense, changed);
  if (!tally.swapped.empty())
    diagnosis.add("experts", CheckState::fault,
                  "gate and up are swapped in " + sample_of(tally.swapped),
                  fmt::format("{}, or swap them back: SiLU acts on the gate", kMakeAgain));
  else if (!tally.strangers.empty())
    diagnosis.add("experts", CheckState::warning,
                  "not like the parent's feed-forward: " + sample_of(tally.strangers),
                  "of a fresh upcycle this is a fault: give its own parent, or make it again");
  else
    diagnosis.add("experts", CheckState::ok,
                  out.copies ? fmt::format("{} exact copies of the parent's feed-forwards", experts)
                             : fmt::format("{} of {} matrices are exactly the parent's, mean "
                                           "distance {:.3g} of their size",
                                           tally.equal, tally.matrices, out.distance));
  if (a != 1) {
    if (tally.unscaled.empty())
      diagnosis.add("virtual groups", CheckState::ok,
                    fmt::format("shards make up for their gates: a = {:.4g}", a));
    else
      diagnosis.add(
          "virtual groups", scale_none ? CheckState::warning : CheckState::fault,
          fmt::format("a = {:.4g} is not in the weights of {}", a, sample_of(tally.unscaled)),
          "upcycle with `penstock upcycle --scale published` or exact; unscaled shards add almost "
          "nothing");
  }
  diagnosis.add("other weights", CheckState::ok,
                out.parent
                    ? "attention, norms and embeddings are exactly the parent's"
                    : fmt::format("{} tensors of attention, norms and embeddings are not the "
                                  "parent's: trained, or stored in a narrower type",
                                  changed));
  return out;
}

}  // namespace penstock::doctor
