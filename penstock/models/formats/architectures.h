// The architectures that other programs know: what their models are made of, and how Hugging Face's
// files and GGUF files spell it. Readers and writers of both take it from here; a new architecture
// is a row of the table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "penstock/models/model_config.h"

namespace penstock {

/// The expert that every token passes: none, one whose output is added, one with a gate before
/// that.
enum class SharedExpert { none, plain, gated };

/// Which layers may be without experts: none; those that a list names; the first few, and then all
/// but every n-th.
enum class DenseLayers { none, listed, leading };

/// When attention sees only a window: never; unless its key is null; where its key is set; where a
/// key says that it is used, in layers above a number or in all.
enum class Window { never, unless_null, where_set, in_upper_layers, where_used };

/// Hugging Face's class and its keys. Defaults are those of the class where a key is absent.
struct HuggingFaceClass {
  std::string_view model_type, class_name;
  std::int64_t context = 0, kv_heads = 0;  ///< kv_heads 0: as attention heads
  double norm_eps = 1e-6, rope_base = 1e4;
  Window window = Window::never;
  bool attention_bias_key = false, mlp_bias_key = false;  ///< written; both are false
  std::int64_t experts = 0, used = 0;                     ///< 0: no default
  double balance = 0;
  const char* experts_key = "num_experts";
  const char* balance_key = "router_aux_loss_coef";
  /// Default of moe_intermediate_size; 0: the key is not there, experts are as wide as dense
  /// layers.
  std::int64_t expert_width = 0;
  std::int64_t shared_width = 0;    ///< default of shared_expert_intermediate_size, where gated
  bool divides_single_gate = true;  ///< norm_topk_prob counts for one expert per token too
  /// What some programs take no notice of, if norm_topk_prob is not what they compute.
  std::string_view norm_unread_by = "llama.cpp's conversion";
  bool only_if_named = false;  ///< where they do so, it is written only if asked for by name
  std::string_view note = {};  ///< what who loads it has to know
  /// Parts of our tensors' names, and what the class calls them.
  std::span<const std::pair<std::string_view, std::string_view>> renamed = {};
};

/// llama.cpp's graph.
struct GgufGraph {
  std::string_view name = {};  ///< general.architecture; empty: there is none
  bool rope_adjacent = false;  ///< rotates pairs (2i, 2i+1), else (i, i + hd/2)
  bool renormalises = false;   ///< gates of the kept experts are divided by their sum
  bool grouped_keys = true;    ///< may have fewer keys than queries
  bool ties = false;           ///< an MoE's head may be its embeddings
};

struct Architecture {
  std::string_view name;  ///< as it is asked for; empty: read, never written
  bool experts = false;   ///< in some layers; else in none
  bool qkv_bias = false;  ///< of q, k and v: has them; else has none
  QkNorm qk_norm = QkNorm::none;
  bool clips_qkv = false;     ///< may cut q, k and v, in Hugging Face's class
  bool any_head_dim = false;  ///< q may be wider or narrower than the model
  bool sums_to_one =
      false;  ///< softmax over the chosen logits; else over all, as norm_topk_prob says
  SharedExpert shared = SharedExpert::none;
  DenseLayers dense = DenseLayers::none;  ///< in Hugging Face's class
  HuggingFaceClass hf;
  GgufGraph gguf;
};

/// All, in the order in which an export tries them.
std::span<const Architecture> architectures();

/// "llama, qwen2, ...", of what a member says of each; empties and repetitions left out.
template <class Member>
std::string list_architectures(Member member) {
  std::string out;
  for (const Architecture& one : architectures()) {
    const std::string word(member(one));
    if (word.empty() || (", " + out + ",").find(", " + word + ",") != std::string::npos) continue;
    out += (out.empty() ? "" : ", ") + word;
  }
  return out;
}

/// The name under which an architecture's class keeps a tensor of ours.
std::string hugging_face_name(const Architecture& architecture, std::string name);

/// The dense architecture that computes just what the config says, or null: a directory may call
/// itself that.
const Architecture* plain_architecture(const ModelConfig& config);

}  // namespace penstock
