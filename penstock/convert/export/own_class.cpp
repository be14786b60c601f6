#include "penstock/convert/export/own_class.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "penstock/convert/export/export_hugging_face_config.h"
#include "penstock/convert/export/not_portable.h"
#include "penstock/models/counts/model_tensors.h"
#include "penstock/models/files/model_directory.h"
#include "penstock/routers/parameter_names.h"
#include "penstock/routers/plain_router.h"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

constexpr Architecture kArchitecture = {
    .name = kOwnClass, .hf = {.model_type = "penstock", .class_name = "PenstockForCausalLM"}};

void add_experts(const ModelConfig& c, Json& out) {
  const auto shapes = tensor_shapes(c);
  const GateForm gates = c.traits().gates;
  out["gates"] = gate_form_name(gates);
  if (gates != GateForm::relu)
    out["num_experts_per_tok"] = static_cast<std::int64_t>(c.active_experts());
  out["moe_layers"] = c.moe_layer_indices();
  out["moe_intermediate_size"] = c.expert_width();
  out["router_bias"] = std::ranges::any_of(shapes, [](const auto& one) {
    const auto tensor = scorer_tensor(one.first);
    return tensor && tensor->parameter == kScorerBias;
  });
  out["shared_expert_intermediate_size"] = c.moe.shared_width;
  out["shared_expert_gate"] = c.moe.shared_gate;
}

/// The router without its balancers. The scorer stays unchanged.
RouterConfig unbalanced(const RouterConfig& router) {
  const ResolvedRouter parts = resolve(router);
  RouterConfig out = router;
  out.selector = parts.selector;
  out.balancers.emplace();
  out.parts = {{parts.scorer, parts.options.at(parts.scorer)},
               {parts.selector, parts.options.at(parts.selector)}};
  return out;
}

/// Why the class does not compute the same as these routers, or "".
std::string objection_to_router(const ModelConfig& c) {
  const ResolvedRouter router = resolve(c.router);
  if (router.traits.biases_choice) return "a balancer's bias counts in the choice of experts";
  if (router.traits.gates == GateForm::other)
    return concat("it has gates by ReLU and by softmax, and selector '", router.selector,
                  "' has others");
  if (router.traits.gates != GateForm::relu &&
      (!router.traits.takes_highest || !selector_of(c)->refuses_none()))
    return concat("selector '", router.selector,
                  "' does not give every token the experts of its highest logits");
  if (!router.traits.foldable && !keeps_routers(c))
    return concat("scorer '", router.scorer, "' as it is set is not one matrix");
  return {};
}

}  // namespace

bool is_own_class(const ExportTarget& target) { return target.architecture == &kArchitecture; }

bool keeps_routers(const ModelConfig& config) {
  if (config.moe_layers() == 0) return true;
  if (!config.traits().one_matrix) return false;
  return std::ranges::all_of(tensor_shapes(config), [](const auto& one) {
    const auto tensor = scorer_tensor(one.first);
    return !tensor || tensor->parameter == kScorerWeight || tensor->parameter == kScorerBias;
  });
}

bool own_class_computes(const ModelConfig& c) {
  return !c.transformer_xl() && (c.moe_layers() == 0 || objection_to_router(c).empty());
}

ExportTarget own_class_target(const ModelConfig& config) {
  ModelConfig c = config;
  if (c.transformer_xl()) fail_not_portable("no other program computes Penstock's Transformer-XL");
  if (c.moe_layers() > 0) {
    const std::string reason = objection_to_router(c);
    if (!reason.empty()) fail_not_portable("as ", kOwnClass, " ", reason);
    c.router = keeps_routers(c) ? unbalanced(c.router) : folded_router(c.router, false);
  }
  if (c.context == 0) c.context = 2048;
  return {.format = ExportFormat::kHuggingFace,
          .architecture = &kArchitecture,
          .config = c.resolved(),
          .note = "transformers opens it with trust_remote_code=True: its class is in the folder"};
}

std::string own_class_config_text(const ExportTarget& target, ExportDtype dtype,
                                  const SpecialIds& ids) {
  const ModelConfig& c = target.config;
  // Starts from the keys of Penstock's own config.json and replaces those that the class reads
  // differently. A null key stands for the class's default.
  Json out = Json::parse(config_json_text(c));
  out["architectures"] = {target.architecture->hf.class_name};
  out["model_type"] = target.architecture->hf.model_type;
  out["auto_map"] = {{"AutoConfig", "configuration_penstock.PenstockConfig"},
                     {"AutoModelForCausalLM", "modeling_penstock.PenstockForCausalLM"}};
  out["intermediate_size"] = c.moe_layers() < c.layers ? c.dense_width() : c.expert_width();
  out["qk_norm"] = nullptr;
  if (c.norm_of_qk() != QkNorm::none)
    out["qk_norm"] = c.norm_of_qk() == QkNorm::whole ? "whole" : "head";
  out["clip_qkv"] = c.clip_qkv > 0 ? Json(c.clip_qkv) : Json(nullptr);
  out["rope_adjacent"] = c.rope_adjacent;
  out["initializer_range"] = c.init_std;
  if (c.moe_layers() > 0) add_experts(c, out);
  return finished_config_text(std::move(out), dtype, ids);
}

}  // namespace penstock
