#include "penstock/convert/export/export_choice.h"

#include <optional>

#include "penstock/base/error.h"
#include "penstock/convert/export/export_gates.h"
#include "penstock/convert/export/not_portable.h"
#include "penstock/convert/export/own_class.h"
#include "penstock/routers/option_changes.h"
#include "penstock/routers/plain_router.h"

namespace penstock {
namespace {

/// Width of a shared expert whose output is 0: a multiple of Q8_0's block.
constexpr std::int64_t kNullWidth = 32;
/// The most experts that llama.cpp supports.
constexpr std::int64_t kMostGgufExperts = 512;

/// Why the target cannot have the model's dense layers, or "".
std::string objection_to_layers(const ModelConfig& c, const Architecture& target, bool gguf) {
  if (c.moe_layers() == c.layers) return {};
  if (target.dense == DenseLayers::none || (gguf && target.dense == DenseLayers::listed))
    return concat("it has experts in every layer, the model in ", c.moe_layers(), " of ", c.layers,
                  " layers");
  const bool to_the_end = c.moe.first_layers < 0 || c.moe.first_layers >= c.layers;
  const bool leading =
      to_the_end && (gguf ? c.moe.every == 1 : c.moe.dense_layers % c.moe.every == 0);
  if (target.dense == DenseLayers::leading && !leading)
    return "its layers without experts are the first ones, the model's are others";
  return {};
}

/// Why the model's shared expert, or its absence, does not fit the target, or "".
std::string objection_to_shared_expert(const ModelConfig& c, const Architecture& target,
                                       bool gguf) {
  if (target.shared == SharedExpert::none && c.moe.shared_width > 0)
    return "it has no shared expert, the model has";
  if (target.shared != SharedExpert::plain) return {};
  if (c.moe.shared_gate) return "its shared experts have no gate, the model's has";
  if (c.moe.shared_width % c.expert_width() != 0)
    return concat("its shared experts are as wide as others, ", c.expert_width(),
                  ", and together here ", c.moe.shared_width);
  if (gguf && c.moe.shared_width == 0) return "it has shared experts there, the model none";
  return {};
}

/// Why the target computes the gates of the chosen experts differently, or "".
std::string objection_to_gates(const ModelConfig& c, const Architecture& target, bool gguf,
                               const ExportGates& gates) {
  const bool always_divides = target.sums_to_one || (gguf && target.gguf.renormalises);
  if (always_divides && !gates.sum_to_one)
    return concat("it divides the gates by their sum", target.sums_to_one ? "" : " there",
                  ", the model does not");
  if (always_divides || gates.probabilities) return {};
  if (gguf) return "it does not divide the gates by their sum there, the model does";
  if (c.active_experts() == 1)
    return "the gate of a single expert is 1 here, which programs of this class leave out";
  return {};
}

/// Why this architecture does not compute the same as the model, or "".
std::string objection(const ModelConfig& c, const Architecture& target, ExportFormat format,
                      const ExportGates& gates) {
  const bool gguf = format == ExportFormat::kGguf;
  if (target.experts != (c.moe_layers() > 0))
    return target.experts ? "the model is dense" : "the model has experts";
  if (!target.qkv_bias && c.qkv_bias) return "it has no biases of q, k and v, the model has";
  const QkNorm norm = c.norm_of_qk();
  if (target.qk_norm != norm && (norm == QkNorm::none || target.qk_norm == QkNorm::none))
    return norm == QkNorm::none ? "it norms q and k, the model does not"
                                : "it does not norm q and k, the model does";
  if (target.qk_norm != norm)
    return norm == QkNorm::head ? "it norms all heads of q and k together, the model each"
                                : "it norms each head of q and k, the model all together";
  if (c.clip_qkv > 0 && (!target.clips_qkv || gguf))
    return "it does not cut q, k and v, the model does";
  if (!target.any_head_dim && c.heads * c.head_dim != c.d_model)
    return concat("its q is as wide as the model, ", c.d_model, ", and here ",
                  c.heads * c.head_dim);
  if (!target.experts) return {};
  for (const std::string& reason :
       {objection_to_layers(c, target, gguf), objection_to_gates(c, target, gguf, gates),
        objection_to_shared_expert(c, target, gguf)})
    if (!reason.empty()) return reason;
  if (gguf && !target.gguf.grouped_keys && c.kv_heads != c.heads)
    return "it has as many keys as queries there, the model fewer";
  if (gguf && c.total_experts() > kMostGgufExperts)
    return concat("llama.cpp takes at most ", kMostGgufExperts, " experts, the model has ",
                  c.total_experts());
  return {};
}

/// The keys that some programs ignore when they load the files, although the config needs them, or
/// "".
std::string ignored_elsewhere(const ExportTarget& target) {
  const Architecture& as = *target.architecture;
  if (target.format == ExportFormat::kGguf) return {};
  std::string out;
  const auto add = [&](bool there, const std::string& what) {
    if (there) out += concat(out.empty() ? "" : ", ", what);
  };
  add(as.experts && target.renormalises != as.gguf.renormalises,
      concat("norm_topk_prob (", as.hf.norm_unread_by, ")"));
  add(target.config.clip_qkv > 0, "clip_qkv (llama.cpp's conversion)");
  add(as.clips_qkv && target.config.norm_eps != 1e-5, "rms_norm_eps (vLLM)");
  return out;
}

ExportTarget target_of(const ModelConfig& c, const Architecture& target, ExportFormat format,
                       const ExportGates& gates) {
  const bool gguf = format == ExportFormat::kGguf;
  ExportTarget out{.format = format, .architecture = &target, .config = c};
  out.renormalises = target.experts && (target.sums_to_one || !gates.probabilities ||
                                        (gguf && target.gguf.renormalises));
  ModelConfig& config = out.config;
  if (config.context == 0) config.context = 2048;
  config.qkv_bias = target.qkv_bias;
  config.rope_adjacent = gguf && target.gguf.rope_adjacent;
  if (!target.experts) return out;
  config.router = plain_router({.k = c.active_experts(),
                                .softmax_over_kept = target.sums_to_one,
                                .renormalise = out.renormalises && !target.sums_to_one,
                                .balance = balance_coefficient(c.router)});  // for further training
  config.moe.experts = c.total_experts();
  config.moe.granularity = 1;
  config.d_ffn = c.expert_width();
  if (c.moe_layers() < c.layers) config.moe.dense_width = c.dense_width();
  if (target.shared == SharedExpert::gated) {  // this architecture always has a gated shared expert
    if (c.moe.shared_width == 0) config.moe.shared_width = kNullWidth;
    config.moe.shared_gate = true;
  }
  if (gguf && !target.gguf.ties) config.tie_embeddings = false;
  config = config.resolved();
  return out;
}

}  // namespace

const std::vector<std::string>& export_architectures() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const Architecture& one : architectures())
      if (!one.name.empty()) out.emplace_back(one.name);
    out.emplace_back(kOwnClass);
    return out;
  }();
  return names;
}

namespace {

/// Why no architecture of the table was chosen.
struct Declined {
  std::string reasons;
  bool withheld = false;  ///< an architecture fits, but it is written only if asked for by name
};

/// The first architecture of the table that fits; nothing if none is chosen.
std::optional<ExportTarget> target_of_table(const ModelConfig& c, ExportFormat format,
                                            const std::string& architecture, Declined& declined) {
  const bool moe = c.moe_layers() > 0;
  const ExportGates gates = moe ? export_gates(c) : ExportGates();
  for (const Architecture& target : architectures()) {
    if (target.name.empty()) continue;
    if (architecture.empty() ? target.experts != moe : target.name != architecture) continue;
    std::string reason = objection(c, target, format, gates);
    if (reason.empty()) {
      ExportTarget out = target_of(c, target, format, gates);
      const std::string ignored = ignored_elsewhere(out);
      if (!ignored.empty())
        out.note = "transformers computes this model; others ignore its " + ignored;
      if (format == ExportFormat::kHuggingFace && !target.hf.note.empty())
        out.note = concat(target.hf.note, ignored.empty() ? "" : "; others ignore its ", ignored);
      if (ignored.empty() || !architecture.empty() || !target.hf.only_if_named) return out;
      declined.withheld = true;
      reason = concat("other programs than transformers ignore its ", ignored,
                      "; options.architecture ", target.name, " writes it for transformers");
    }
    declined.reasons +=
        concat(declined.reasons.empty() ? "as " : "; as ", target.name, " ", reason);
  }
  return std::nullopt;
}

}  // namespace

ExportTarget choose_export_target(const ModelConfig& c, ExportFormat format,
                                  const std::string& architecture) {
  PENSTOCK_ASSERT(c.is_resolved());
  const bool hugging_face = format == ExportFormat::kHuggingFace;
  if (c.transformer_xl()) fail_not_portable("no other program computes Penstock's Transformer-XL");
  if (architecture == kOwnClass) {
    if (!hugging_face) fail_not_portable("as ", kOwnClass, " no program reads a GGUF file");
    return own_class_target(c);
  }
  const bool own = hugging_face && architecture.empty() && own_class_computes(c);
  Declined declined;
  try {
    if (auto target = target_of_table(c, format, architecture, declined)) return *target;
  } catch (const NotPortableError&) {  // no architecture of the table has such routers
    if (!own) throw;
  }
  if (own && !declined.withheld) return own_class_target(c);
  PENSTOCK_CHECK(!declined.reasons.empty(), "unknown architecture '", architecture, "'; ",
                 list_architectures([](const Architecture& one) { return one.name; }), ", ",
                 kOwnClass, " are known");
  fail_not_portable(declined.reasons);
}

bool can_export(const ModelConfig& config, ExportFormat format) {
  try {
    choose_export_target(config, format, "");
    return true;
  } catch (const NotPortableError&) {
    return false;
  }
}

std::string export_lost_by_training(const ModelConfig& config) {
  if (!learns_bias(config.router) || !can_export(config, ExportFormat::kGguf)) return "";
  const std::string key = bias_key(config.router);
  return concat(
      "its routers learn a bias for each expert, and routers of other programs have none: once "
      "trained, the model is written exactly by `penstock export MODEL --format hf --architecture ",
      kOwnClass,
      "` alone, and with the bias fitted into the matrix by `penstock export MODEL --format gguf "
      "--fit-bias --text FILE`",
      key.empty() ? "" : concat("; ", key, " = false trains without it"));
}

}  // namespace penstock
