#include "penstock/models/formats/gguf_layout.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "penstock/base/parse_number.h"
#include "penstock/models/embedding_and_head_names.h"
#include "penstock/models/module_names.h"

namespace penstock {
namespace {

using NamePair = std::pair<std::string_view, std::string_view>;

constexpr std::array<NamePair, 3> kOfModel = {{{kEmbeddingsTensor, "token_embd.weight"},
                                               {kFinalNormTensor, "output_norm.weight"},
                                               {kHeadTensor, "output.weight"}}};

constexpr std::array<NamePair, 19> kOfLayer = {
    {{"input_layernorm.weight", "attn_norm.weight"},
     {"post_attention_layernorm.weight", "ffn_norm.weight"},
     {"self_attn.q_proj.weight", "attn_q.weight"},
     {"self_attn.k_proj.weight", "attn_k.weight"},
     {"self_attn.v_proj.weight", "attn_v.weight"},
     {"self_attn.o_proj.weight", "attn_output.weight"},
     {"self_attn.q_proj.bias", "attn_q.bias"},
     {"self_attn.k_proj.bias", "attn_k.bias"},
     {"self_attn.v_proj.bias", "attn_v.bias"},
     {"self_attn.q_norm.weight", "attn_q_norm.weight"},
     {"self_attn.k_norm.weight", "attn_k_norm.weight"},
     {"mlp.gate_proj.weight", "ffn_gate.weight"},
     {"mlp.up_proj.weight", "ffn_up.weight"},
     {"mlp.down_proj.weight", "ffn_down.weight"},
     {"mlp.gate.weight", "ffn_gate_inp.weight"},
     {"mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"},
     {"mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"},
     {"mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight"},
     {"mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight"}}};

constexpr std::array<NamePair, 3> kOfExpert = {{{"gate_proj.weight", "ffn_gate_exps.weight"},
                                                {"up_proj.weight", "ffn_up_exps.weight"},
                                                {"down_proj.weight", "ffn_down_exps.weight"}}};

constexpr std::string_view kExpertStem = "mlp.experts.";

template <std::size_t n>
std::string_view renamed(const std::array<NamePair, n>& table, std::string_view name) {
  const auto* const found = std::ranges::find(table, name, &NamePair::first);
  return found == table.end() ? std::string_view() : found->second;
}

/// Cuts an index such as "12." from the front of `text` and returns it; -1 if there is none.
std::int64_t take_index(std::string_view& text) {
  const std::size_t dot = text.find('.');
  const auto index = parse_number<std::int64_t>(text.substr(0, dot));
  if (dot == std::string_view::npos || !index || *index < 0) return -1;
  text.remove_prefix(dot + 1);
  return *index;
}

}  // namespace

GgufPlace gguf_place(const std::string& name) {
  const auto layer = layer_in_files(name);
  if (!layer) return {.tensor = std::string(renamed(kOfModel, name))};
  std::string_view rest = name;
  rest.remove_prefix(layer_stem(*layer).size());
  const std::string block = "blk." + std::to_string(*layer) + ".";
  if (rest.starts_with(kExpertStem)) {
    rest.remove_prefix(kExpertStem.size());
    const std::int64_t expert = take_index(rest);
    const std::string_view stack = renamed(kOfExpert, rest);
    if (expert < 0 || stack.empty()) return {};
    return {.tensor = block + std::string(stack), .expert = expert};
  }
  const std::string_view own = renamed(kOfLayer, rest);
  if (own.empty()) return {};
  return {.tensor = block + std::string(own)};
}

}  // namespace penstock
