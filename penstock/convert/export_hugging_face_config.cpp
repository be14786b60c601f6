// config.json of an export.
#include <nlohmann/json.hpp>

#include "penstock/base/error.h"
#include "penstock/convert/export_hugging_face.h"
#include "penstock/data/vocabulary.h"
#include "penstock/routers/plain_router.h"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

struct HuggingFaceClass {
  const char* class_name;
  const char* model_type;
};

HuggingFaceClass class_of(const std::string& architecture) {
  if (architecture == "llama") return {"LlamaForCausalLM", "llama"};
  if (architecture == "qwen2") return {"Qwen2ForCausalLM", "qwen2"};
  if (architecture == "mixtral") return {"MixtralForCausalLM", "mixtral"};
  if (architecture == "qwen2moe") return {"Qwen2MoeForCausalLM", "qwen2_moe"};
  PENSTOCK_ASSERT(architecture == "olmoe", architecture);
  return {"OlmoeForCausalLM", "olmoe"};
}

const char* torch_dtype(ExportDtype dtype) {
  switch (dtype) {
    case ExportDtype::kF16:
      return "float16";
    case ExportDtype::kBF16:
      return "bfloat16";
    default:
      return "float32";
  }
}

void add_experts(const ExportTarget& target, Json& out) {
  const ModelConfig& c = target.config;
  const auto experts = c.total_experts();
  const auto used = static_cast<std::int64_t>(c.active_experts());
  out["num_experts_per_tok"] = used;
  out["output_router_logits"] = false;
  out["router_aux_loss_coef"] = balance_coefficient(c.router);
  if (target.architecture == "mixtral") {
    out["num_local_experts"] = experts;
    out["router_jitter_noise"] = 0.0;
    return;
  }
  out["num_experts"] = experts;
  out["norm_topk_prob"] = target.renormalises;
  if (target.architecture != "qwen2moe") return;
  out["moe_intermediate_size"] = c.expert_width();
  out["shared_expert_intermediate_size"] = c.moe.shared_width;
  out["decoder_sparse_step"] = 1;
  out["mlp_only_layers"] = Json::array();
  out["qkv_bias"] = true;
}

void add_ids(const Tokenizer* tokenizer, Json& out) {
  const auto vocabulary = tokenizer ? tokenizer->vocabulary() : std::nullopt;
  const auto id = [](TokenId value) { return value >= 0 ? Json(value) : Json(nullptr); };
  const TokenId end = tokenizer ? tokenizer->end_of_document() : -1;
  out["bos_token_id"] = id(vocabulary ? vocabulary->bos : -1);
  out["eos_token_id"] = id(end);
  out["pad_token_id"] = id(vocabulary ? vocabulary->padding : -1);
}

}  // namespace

std::string hugging_face_config_text(const ExportTarget& target, ExportDtype dtype,
                                     const Tokenizer* tokenizer) {
  const ModelConfig& c = target.config;
  const std::string& architecture = target.architecture;
  const auto [class_name, model_type] = class_of(architecture);
  Json out;
  out["architectures"] = {class_name};
  out["model_type"] = model_type;
  out["vocab_size"] = c.vocab;
  out["hidden_size"] = c.d_model;
  out["intermediate_size"] = c.expert_width();
  out["num_hidden_layers"] = c.layers;
  out["num_attention_heads"] = c.heads;
  out["num_key_value_heads"] = c.kv_heads;
  if (architecture == "llama" || architecture == "mixtral") out["head_dim"] = c.head_dim;
  out["hidden_act"] = "silu";
  out["max_position_embeddings"] = c.context;
  out["initializer_range"] = c.init_std;
  out["rms_norm_eps"] = c.norm_eps;
  out["use_cache"] = true;
  out["tie_word_embeddings"] = c.tie_embeddings;
  out["attention_dropout"] = 0.0;
  // Version 4 of transformers reads the first two, version 5 the third.
  out["rope_theta"] = c.rope_base;
  out["rope_scaling"] = nullptr;
  out["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", c.rope_base}};
  if (architecture == "llama" || architecture == "olmoe") out["attention_bias"] = false;
  if (architecture == "llama") out["mlp_bias"] = false;
  if (architecture == "olmoe") out["clip_qkv"] = c.clip_qkv > 0 ? Json(c.clip_qkv) : Json(nullptr);
  if (architecture != "llama" && architecture != "olmoe") out["sliding_window"] = nullptr;
  if (architecture.starts_with("qwen2")) {
    out["use_sliding_window"] = false;
    out["max_window_layers"] = c.layers;
  }
  if (c.moe_layers() > 0) add_experts(target, out);
  add_ids(tokenizer, out);
  out["torch_dtype"] = torch_dtype(dtype);
  out["dtype"] = torch_dtype(dtype);
  return out.dump(2) + "\n";
}

}  // namespace penstock
