#include "penstock/models/formats/architectures.h"

#include <algorithm>
#include <array>

namespace penstock {
namespace {

using Renaming = std::pair<std::string_view, std::string_view>;

constexpr std::array<Renaming, 4> kMixtralNames = {{{".mlp.", ".block_sparse_moe."},
                                                    {".gate_proj.", ".w1."},
                                                    {".up_proj.", ".w3."},
                                                    {".down_proj.", ".w2."}}};
constexpr std::array<Renaming, 1> kDeepseekNames = {{{".shared_expert.", ".shared_experts."}}};

/// `llama` is Mixtral's GGUF graph too.
/// Source: the classes of transformers (for deepseek DeepSeekMoE's own code, arXiv:2401.06066) and
/// the graphs of llama.cpp.
constexpr std::array<Architecture, 8> kArchitectures = {
    {{.name = "llama",
      .any_head_dim = true,
      .hf = {.model_type = "llama",
             .class_name = "LlamaForCausalLM",
             .context = 2048,
             .attention_bias_key = true,
             .mlp_bias_key = true},
      .gguf = {.name = "llama", .rope_adjacent = true}},
     {.name = "",
      .any_head_dim = true,
      .hf = {.model_type = "mistral",
             .class_name = "MistralForCausalLM",
             .context = 131072,
             .kv_heads = 8,
             .window = Window::unless_null}},
     {.name = "qwen2",
      .qkv_bias = true,
      .hf = {.model_type = "qwen2",
             .class_name = "Qwen2ForCausalLM",
             .context = 32768,
             .kv_heads = 32,
             .window = Window::in_upper_layers},
      .gguf = {.name = "qwen2"}},
     {.name = "mixtral",
      .experts = true,
      .any_head_dim = true,
      .sums_to_one = true,
      .hf = {.model_type = "mixtral",
             .class_name = "MixtralForCausalLM",
             .context = 131072,
             .kv_heads = 8,
             .norm_eps = 1e-5,
             .rope_base = 1e6,
             .window = Window::where_set,
             .experts = 8,
             .used = 2,
             .balance = 0.001,
             .experts_key = "num_local_experts",
             .renamed = kMixtralNames},
      .gguf = {.name = "llama", .rope_adjacent = true, .renormalises = true, .ties = true}},
     {.name = "olmoe",
      .experts = true,
      .qk_norm = QkNorm::whole,
      .clips_qkv = true,
      .hf = {.model_type = "olmoe",
             .class_name = "OlmoeForCausalLM",
             .context = 4096,
             .norm_eps = 1e-5,
             .attention_bias_key = true,
             .experts = 64,
             .used = 8,
             .balance = 0.01,
             .norm_unread_by = "vLLM, llama.cpp's conversion",
             .only_if_named = true},
      .gguf = {.name = "olmoe", .grouped_keys = false}},
     {.name = "qwen2moe",
      .experts = true,
      .qkv_bias = true,
      .shared = SharedExpert::gated,
      .dense = DenseLayers::listed,
      .hf = {.model_type = "qwen2_moe",
             .class_name = "Qwen2MoeForCausalLM",
             .context = 32768,
             .kv_heads = 16,
             .window = Window::in_upper_layers,
             .experts = 60,
             .used = 4,
             .balance = 0.001,
             .expert_width = 1408,
             .shared_width = 5632},
      .gguf = {.name = "qwen2moe"}},
     {.name = "qwen3moe",
      .experts = true,
      .qk_norm = QkNorm::head,
      .any_head_dim = true,
      .dense = DenseLayers::listed,
      .hf = {.model_type = "qwen3_moe",
             .class_name = "Qwen3MoeForCausalLM",
             .context = 32768,
             .kv_heads = 4,
             .window = Window::where_used,
             .attention_bias_key = true,
             .experts = 128,
             .used = 8,
             .balance = 0.001,
             .expert_width = 768},
      .gguf = {.name = "qwen3moe", .renormalises = true}},
     {.name = "deepseek",
      .experts = true,
      .shared = SharedExpert::plain,
      .dense = DenseLayers::leading,
      .hf = {.model_type = "deepseek",
             .class_name = "DeepseekForCausalLM",
             .context = 2048,
             .attention_bias_key = true,
             .balance = 0.001,
             .experts_key = "n_routed_experts",
             .balance_key = "aux_loss_alpha",
             .expert_width = 1407,
             .divides_single_gate = false,
             .note = "transformers has no class 'deepseek': put DeepSeekMoE's modeling_deepseek.py "
                     "beside it, or load it with vLLM or llama.cpp's conversion",
             .renamed = kDeepseekNames},
      .gguf = {.name = "deepseek", .rope_adjacent = true}}}};

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

std::string hugging_face_name(const Architecture& architecture, std::string name) {
  for (const auto& [ours, theirs] : architecture.hf.renamed)
    if (const auto at = name.find(ours); at != std::string::npos)
      name.replace(at, ours.size(), theirs);
  return name;
}

const Architecture* plain_architecture(const ModelConfig& c) {
  if (c.moe_layers() > 0 || c.transformer_xl() || c.rope_adjacent || c.clip_qkv > 0) return nullptr;
  const auto* const found = std::ranges::find_if(kArchitectures, [&](const Architecture& one) {
    return !one.name.empty() && !one.experts && one.qkv_bias == c.qkv_bias &&
           one.qk_norm == c.norm_of_qk();
  });
  return found == kArchitectures.end() ? nullptr : found;
}

}  // namespace penstock
