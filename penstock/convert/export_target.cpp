#include "penstock/convert/export_target.h"

#include <algorithm>
#include <array>

#include "penstock/convert/export_gates.h"
#include "penstock/routers/plain_router.h"

namespace penstock {
namespace {

/// Width of a shared expert that gives 0: a multiple of Q8_0's blocks.
constexpr std::int64_t kNullWidth = 32;
/// Most experts that llama.cpp is built for.
constexpr std::int64_t kMostGgufExperts = 512;

struct Class {
  std::string_view name;
  bool moe;
  bool biases;     ///< of q, k and v: has them; else has none
  bool qk_norm;    ///< has norms of q and k; else has none
  bool any_width;  ///< q may be wider or narrower than the model
};
constexpr std::array<Class, 5> kClasses = {{{"llama", false, false, false, true},
                                            {"qwen2", false, true, false, false},
                                            {"mixtral", true, false, false, true},
                                            {"olmoe", true, false, true, false},
                                            {"qwen2moe", true, true, false, false}}};

/// Why no architecture at all holds the model, or "".
std::string objection_to_model(const ModelConfig& c) {
  if (c.transformer_xl()) return "no other program computes Penstock's Transformer-XL";
  if (c.moe_layers() > 0 && c.moe_layers() < c.layers)
    return concat("only ", c.moe_layers(), " of ", c.layers,
                  " layers are MoE, and other programs want all or none");
  return {};
}

/// Why this architecture computes something else than the model, or "".
std::string objection(const ModelConfig& c, const Class& target, ExportFormat format,
                      const ExportGates& gates) {
  const bool gguf = format == ExportFormat::kGguf;
  if (target.moe != (c.moe_layers() > 0))
    return target.moe ? "the model is dense" : "the model has experts";
  if (!target.biases && c.qkv_bias) return "it has no biases of q, k and v, the model has";
  if (target.qk_norm != c.qk_norm)
    return target.qk_norm ? "it norms q and k, the model does not"
                          : "it does not norm q and k, the model does";
  if (c.clip_qkv > 0 && (target.name != "olmoe" || gguf))
    return "it does not cut q, k and v, the model does";
  if (!target.any_width && c.heads * c.head_dim != c.d_model)
    return concat("its q is as wide as the model, ", c.d_model, ", and here ",
                  c.heads * c.head_dim);
  if (!target.moe) return {};
  if (target.name == "mixtral" && !gates.sum_to_one)
    return "it divides the gates by their sum, the model does not";
  if (target.name != "mixtral" && !gates.probabilities) {
    if (gguf) return "it does not divide the gates by their sum there, the model does";
    if (c.active_experts() == 1)
      return "the gate of a single expert is 1 here, which programs of this class leave out";
  }
  if (c.moe.shared_width > 0 && target.name != "qwen2moe")
    return "it has no shared expert, the model has";
  if (gguf && target.name == "olmoe" && c.kv_heads != c.heads)
    return "it has as many keys as queries there, the model fewer";
  if (gguf && c.total_experts() > kMostGgufExperts)
    return concat("llama.cpp takes at most ", kMostGgufExperts, " experts, the model has ",
                  c.total_experts());
  return {};
}

/// What some programs that load the files would compute otherwise than the config says, or "".
std::string ignored_elsewhere(const ExportTarget& target) {
  if (target.format == ExportFormat::kGguf) return {};
  if (target.architecture == "qwen2moe" && target.renormalises)
    return "norm_topk_prob (llama.cpp's conversion)";
  if (target.architecture != "olmoe") return {};
  std::string out;
  const auto add = [&](bool there, const char* what) {
    if (there) out += concat(out.empty() ? "" : ", ", what);
  };
  add(target.renormalises, "norm_topk_prob (vLLM, llama.cpp's conversion)");
  add(target.config.clip_qkv > 0, "clip_qkv (llama.cpp's conversion)");
  add(target.config.norm_eps != 1e-5, "rms_norm_eps (vLLM)");
  return out;
}

ExportTarget target_of(const ModelConfig& c, const Class& target, ExportFormat format,
                       const ExportGates& gates) {
  const bool gguf = format == ExportFormat::kGguf, mixtral = target.name == "mixtral";
  ExportTarget out{.format = format, .architecture = std::string(target.name), .config = c};
  out.renormalises = target.moe && (mixtral || !gates.probabilities);
  ModelConfig& config = out.config;
  if (config.context == 0) config.context = 2048;
  config.qkv_bias = target.biases;
  config.rope_adjacent = gguf && (mixtral || target.name == "llama");
  if (!target.moe) return out;
  config.router = plain_router({.k = c.active_experts(),
                                .softmax_over_kept = mixtral,
                                .renormalise = out.renormalises && !mixtral,
                                .balance = balance_coefficient(c.router)});  // for who trains on
  config.moe = {.experts = c.total_experts(),
                .shared_width = c.moe.shared_width,
                .shared_gate = c.moe.shared_gate};
  config.d_ffn = c.expert_width();
  if (target.name == "qwen2moe") {  // each has a shared expert, and each of these a gate
    if (c.moe.shared_width == 0) config.moe.shared_width = kNullWidth;
    config.moe.shared_gate = true;
  }
  if (gguf && !mixtral) config.tie_embeddings = false;
  config = config.resolved();
  return out;
}

}  // namespace

void fail_needs_bias(const std::string& detail, const std::string& option) {
  throw NotPortableError(concat(
      "needs a bias: the router adds a number to each expert's logit, and no router of other "
      "programs does (",
      detail, "); train ", option.empty() ? "without it" : concat("with ", option, " = false"),
      ", or put it into the matrix as well as a text allows (options.fit_bias)"));
}

const std::vector<std::string>& export_architectures() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const Class& target : kClasses) out.emplace_back(target.name);
    return out;
  }();
  return names;
}

ExportTarget choose_export_target(const ModelConfig& config, ExportFormat format,
                                  const std::string& architecture) {
  const ModelConfig c = config.resolved();
  if (const std::string reason = objection_to_model(c); !reason.empty()) fail_not_portable(reason);
  const ExportGates gates = c.moe_layers() > 0 ? export_gates(c) : ExportGates();
  std::string reasons;
  for (const Class& target : kClasses) {
    if (!architecture.empty() ? target.name != architecture : target.moe != (c.moe_layers() > 0))
      continue;
    std::string reason = objection(c, target, format, gates);
    if (reason.empty()) {
      ExportTarget out = target_of(c, target, format, gates);
      const std::string ignored = ignored_elsewhere(out);
      if (!ignored.empty())
        out.note = "transformers computes this model; others ignore its " + ignored;
      if (ignored.empty() || !architecture.empty() || out.architecture != "olmoe") return out;
      reason = concat("other programs than transformers ignore its ", ignored,
                      "; options.architecture olmoe writes it for transformers");
    }
    reasons += concat(reasons.empty() ? "as " : "; as ", target.name, " ", reason);
  }
  PENSTOCK_CHECK(!reasons.empty(), "unknown architecture '", architecture,
                 "'; llama, qwen2, mixtral, olmoe and qwen2moe are known");
  fail_not_portable(reasons);
}

}  // namespace penstock
