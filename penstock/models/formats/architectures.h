// The architectures that other programs know: the parts of their models, and the keys of Hugging
// Face's files and GGUF files for them. Readers and writers of both formats use this table. A new
// architecture is a new row of the table.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "penstock/models/model_config.h"

namespace penstock {

/// The expert that every token passes: none; one whose output is added; one whose output is
/// multiplied by a gate and then added.
enum class SharedExpert { none, plain, gated };

/// Which layers may be dense: none; the layers of a list; the first few layers, and after them all
/// but every n-th.
enum class DenseLayers { none, listed, leading };

/// When attention sees only a window. never: at no time. unless_null: unless the window's key is
/// null. where_set: if the window's key is set. in_upper_layers: if a second key switches windows
/// on, in the layers above a number. where_used: if a second key switches windows on, in all
/// layers.
enum class Window { never, unless_null, where_set, in_upper_layers, where_used };

/// Hugging Face's class and its keys. The values are the class's defaults for absent keys.
struct HuggingFaceClass {
  std::string_view model_type, class_name;
  std::int64_t context = 0, kv_heads = 0;  ///< kv_heads 0: as many as attention heads
  double norm_eps = 1e-6, rope_base = 1e4;
  Window window = Window::never;
  /// Whether the key is written; its value is always false.
  bool attention_bias_key = false, mlp_bias_key = false;
  std::int64_t experts = 0, used = 0;  ///< 0: no default
  double balance = 0;
  const char* experts_key = "num_experts";
  const char* balance_key = "router_aux_loss_coef";
  /// Default of moe_intermediate_size; 0: the class has no such key, and experts are as wide as
  /// dense layers.
  std::int64_t expert_width = 0;
  /// Default of shared_expert_intermediate_size, if the shared expert is gated.
  std::int64_t shared_width = 0;
  /// Whether norm_topk_prob also applies with one expert per token.
  bool divides_single_gate = true;
  /// Programs that ignore norm_topk_prob. Their results differ if its value is not the one that
  /// they assume.
  std::string_view norm_unread_by = "llama.cpp's conversion";
  /// Whether a user must request this class by name if some programs would not compute the model's
  /// function.
  bool only_if_named = false;
  std::string_view note = {};  ///< advice for a user who loads the model
  /// Parts of our tensors' names, with the class's names for them.
  std::span<const std::pair<std::string_view, std::string_view>> renamed = {};
};

/// A graph of llama.cpp.
struct GgufGraph {
  std::string_view name = {};  ///< general.architecture; empty: no graph exists
  bool rope_adjacent = false;  ///< rotates pairs (2i, 2i+1), else (i, i + hd/2)
  bool renormalises = false;   ///< the gates of the kept experts are divided by their sum
  bool grouped_keys = true;    ///< whether it may have fewer keys than queries
  bool ties = false;           ///< whether an MoE model may tie its head to its embeddings
};

struct Architecture {
  std::string_view name;  ///< the name in options; empty: the architecture is read, never written
  bool experts = false;   ///< whether some layers have experts; else none has
  bool qkv_bias = false;  ///< whether q, k and v have biases
  QkNorm qk_norm = QkNorm::none;
  bool clips_qkv = false;     ///< whether Hugging Face's class may clip q, k and v
  bool any_head_dim = false;  ///< whether q may be wider or narrower than the model
  /// Whether gates are a softmax over the chosen logits. Otherwise they are a softmax over all
  /// logits, and norm_topk_prob says whether they are renormalised.
  bool sums_to_one = false;
  SharedExpert shared = SharedExpert::none;
  DenseLayers dense = DenseLayers::none;  ///< in Hugging Face's class
  HuggingFaceClass hf;
  GgufGraph gguf;
};

/// All architectures, in the order in which an export tries them.
std::span<const Architecture> architectures();

/// "llama, qwen2, ...": the values of `member` for all architectures, without empty values and
/// repetitions.
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

/// The name of one of our tensors in an architecture's class.
std::string hugging_face_name(const Architecture& architecture, std::string name);

/// The dense architecture that computes exactly the config's model, or null. A directory may use
/// its model_type.
const Architecture* plain_architecture(const ModelConfig& config);

}  // namespace penstock
