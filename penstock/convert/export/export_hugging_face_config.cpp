#include "penstock/convert/export/export_hugging_face_config.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "penstock/routers/plain_router.h"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

const char* torch_dtype_name(ExportDtype dtype) {
  switch (dtype) {
    case ExportDtype::kF16:
      return "float16";
    case ExportDtype::kBF16:
      return "bfloat16";
    default:
      return "float32";
  }
}

/// Writes the keys of the dense layers.
void add_dense_layers(const ModelConfig& c, const Architecture& as, Json& out) {
  if (as.dense == DenseLayers::leading) {
    out["first_k_dense_replace"] = c.moe.dense_layers;
    out["moe_layer_freq"] = c.moe.every;
  }
  if (as.dense != DenseLayers::listed) return;
  out["decoder_sparse_step"] = 1;
  out["mlp_only_layers"] = Json::array();
  for (std::int64_t layer = 0; layer < c.layers; ++layer)
    if (!c.is_moe(layer)) out["mlp_only_layers"].push_back(layer);
}

void add_experts(const ExportTarget& target, Json& out) {
  const ModelConfig& c = target.config;
  const Architecture& as = *target.architecture;
  out["num_experts_per_tok"] = static_cast<std::int64_t>(c.active_experts());
  out["output_router_logits"] = false;
  out[as.hf.balance_key] = balance_coefficient(c.router);
  out[as.hf.experts_key] = c.total_experts();
  if (as.sums_to_one)
    out["router_jitter_noise"] = 0.0;
  else
    out["norm_topk_prob"] = target.renormalises;
  if (as.hf.expert_width > 0) out["moe_intermediate_size"] = c.expert_width();
  if (as.shared == SharedExpert::gated) out["shared_expert_intermediate_size"] = c.moe.shared_width;
  if (as.shared == SharedExpert::plain) {
    const std::int64_t shared = c.moe.shared_width / c.expert_width();
    out["n_shared_experts"] = shared > 0 ? Json(shared) : Json(nullptr);
    out["scoring_func"] = "softmax";
  }
  add_dense_layers(c, as, out);
  if (as.qkv_bias) out["qkv_bias"] = true;
}

}  // namespace

std::string finished_config_text(Json out, ExportDtype dtype, const SpecialIds& ids) {
  const auto value = [](const std::vector<TokenId>& of_a_kind) {
    if (of_a_kind.empty()) return Json(nullptr);
    return of_a_kind.size() == 1 ? Json(of_a_kind.front()) : Json(of_a_kind);
  };
  out["bos_token_id"] = value(ids.beginning);
  out["eos_token_id"] = value(ids.end);
  out["pad_token_id"] = value(ids.padding);
  out["torch_dtype"] = torch_dtype_name(dtype);
  out["dtype"] = torch_dtype_name(dtype);
  return out.dump(2) + "\n";
}

std::string hugging_face_config_text(const ExportTarget& target, ExportDtype dtype,
                                     const SpecialIds& ids) {
  const ModelConfig& c = target.config;
  const Architecture& as = *target.architecture;
  const bool some_dense = c.moe_layers() < c.layers;
  Json out;
  out["architectures"] = {as.hf.class_name};
  out["model_type"] = as.hf.model_type;
  out["vocab_size"] = c.vocab;
  out["hidden_size"] = c.d_model;
  out["intermediate_size"] = some_dense ? c.dense_width() : c.expert_width();
  out["num_hidden_layers"] = c.layers;
  out["num_attention_heads"] = c.heads;
  out["num_key_value_heads"] = c.kv_heads;
  if (as.any_head_dim) out["head_dim"] = c.head_dim;
  out["hidden_act"] = "silu";
  out["max_position_embeddings"] = c.context;
  out["initializer_range"] = c.init_std;
  out["rms_norm_eps"] = c.norm_eps;
  out["use_cache"] = true;
  out["tie_word_embeddings"] = c.tie_embeddings;
  out["attention_dropout"] = 0.0;
  // Version 4 of transformers reads the first two keys, version 5 the third.
  out["rope_theta"] = c.rope_base;
  out["rope_scaling"] = nullptr;
  out["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", c.rope_base}};
  if (as.hf.attention_bias_key) out["attention_bias"] = false;
  if (as.hf.mlp_bias_key) out["mlp_bias"] = false;
  if (as.clips_qkv) out["clip_qkv"] = c.clip_qkv > 0 ? Json(c.clip_qkv) : Json(nullptr);
  if (as.hf.window != Window::never) out["sliding_window"] = nullptr;
  if (as.hf.window >= Window::in_upper_layers) {
    out["use_sliding_window"] = false;
    out["max_window_layers"] = c.layers;
  }
  if (c.moe_layers() > 0) add_experts(target, out);
  return finished_config_text(std::move(out), dtype, ids);
}

}  // namespace penstock
