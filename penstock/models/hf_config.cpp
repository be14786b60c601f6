#include "penstock/models/hf_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/routers/plain_router.h"

namespace penstock {
namespace {

using nlohmann::json;

/// A class of transformers, with the defaults of its keys that differ between classes.
struct HfClass {
  std::string_view type;
  std::int64_t context;
  std::int64_t kv_heads;  ///< 0: as attention heads
  double norm_eps, rope_base;
  std::int64_t experts, used;  ///< 0: none, the class is dense
  double balance;              ///< router_aux_loss_coef
};
constexpr std::array<HfClass, 6> kClasses = {{{"llama", 2048, 0, 1e-6, 1e4, 0, 0, 0},
                                              {"mistral", 131072, 8, 1e-6, 1e4, 0, 0, 0},
                                              {"qwen2", 32768, 32, 1e-6, 1e4, 0, 0, 0},
                                              {"mixtral", 131072, 8, 1e-5, 1e6, 8, 2, 0.001},
                                              {"qwen2_moe", 32768, 16, 1e-6, 1e4, 60, 4, 0.001},
                                              {"olmoe", 4096, 0, 1e-5, 1e4, 64, 8, 0.01}}};
constexpr std::int64_t kMistralWindow = 4096;
constexpr std::int64_t kQwen2MoeExpertWidth = 1408, kQwen2MoeSharedWidth = 5632;

constexpr std::int64_t kLargest = std::int64_t{1} << 24;

/// Typed access to the keys, with errors that name them. A null counts as absent.
class Keys {
 public:
  Keys(const json& object, std::string path) : object_(object), path_(std::move(path)) {}

  const json* find(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  /// Whether it is there and null, which is not the same as absent where the default is not null.
  bool null(const char* key) const {
    const auto it = object_.find(key);
    return it != object_.end() && it->is_null();
  }
  /// Of the keys that are there, but for nulls.
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [key, value] : object_.items())
      if (!value.is_null()) out.push_back(key);
    return out;
  }
  template <class... Parts>
  [[noreturn]] void refuse(const char* key, const Parts&... parts) const {
    fail(path_, ": ", key, " ", parts...);
  }
  std::int64_t integer(const char* key, std::optional<std::int64_t> otherwise = {},
                       std::int64_t least = 1) const {
    const json* const value = find(key);
    if (!value && otherwise) return *otherwise;
    if (!value) refuse(key, "is missing");
    const bool fits = value->is_number_integer() &&
                      (!value->is_number_unsigned() ||
                       value->get<std::uint64_t>() <= static_cast<std::uint64_t>(kLargest)) &&
                      value->get<std::int64_t>() >= least && value->get<std::int64_t>() <= kLargest;
    if (!fits) refuse(key, "is not a whole number from ", least, " to ", kLargest);
    return value->get<std::int64_t>();
  }
  double number(const char* key, double otherwise, double least, double most) const {
    const json* const value = find(key);
    if (!value) return otherwise;
    if (!value->is_number() || !(value->get<double>() >= least && value->get<double>() <= most))
      refuse(key, "is not a number from ", least, " to ", most);
    return value->get<double>();
  }
  bool boolean(const char* key, bool otherwise) const {
    const json* const value = find(key);
    if (!value) return otherwise;
    if (!value->is_boolean()) refuse(key, "is neither true nor false");
    return value->get<bool>();
  }
  std::string text(const char* key, const char* otherwise) const {
    const json* const value = find(key);
    if (!value) return otherwise;
    if (!value->is_string()) refuse(key, "is not a string");
    return value->get<std::string>().substr(0, 80);
  }
  /// An object below this one; null where it is absent.
  std::optional<Keys> below(const char* key) const {
    const json* const value = find(key);
    if (!value) return std::nullopt;
    if (!value->is_object()) refuse(key, "is not an object");
    return Keys(*value, path_ + ": " + key);
  }

 private:
  const json& object_;
  std::string path_;
};

/// What the decoder does not compute, whatever the class.
void refuse_foreign_parts(const Keys& keys, std::string_view type) {
  const std::string activation = keys.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish")
    keys.refuse("hidden_act", "= '", activation, "': only silu is computed");
  if (keys.boolean("mlp_bias", false))
    keys.refuse("mlp_bias", "= true: feed-forward layers have no biases here");
  const bool biased = type == "qwen2" || type == "qwen2_moe";  // their classes do not read the key
  if (!biased && keys.boolean("attention_bias", false))
    keys.refuse("attention_bias", "= true: a bias on o_proj is not computed");
  if (keys.find("quantization_config"))
    keys.refuse("quantization_config", "is set: quantised weights are not read; take the original");
  if (keys.number("partial_rotary_factor", 1, 0, 1) != 1)
    keys.refuse("partial_rotary_factor", "other than 1 is not computed");
  for (const char* const key : {"torch_dtype", "dtype"}) {
    const std::string stored = keys.text(key, "float32");
    if (!std::ranges::count(std::array{"float32", "float16", "bfloat16", "float64", "auto"},
                            stored))
      keys.refuse(key, "= '", stored, "': weights are read as float32, float16 or bfloat16");
  }
}

/// v4 has rope_theta beside rope_scaling, v5 both in rope_parameters.
double rope_base(const Keys& keys, double otherwise) {
  std::optional<double> base;
  for (const char* const table : {"rope_scaling", "rope_parameters"}) {
    const auto rope = keys.below(table);
    if (!rope) continue;
    for (const char* const key : {"rope_type", "type"})
      if (const std::string kind = rope->text(key, "default"); kind != "default")
        keys.refuse(table, "has ", key, " '", kind, "': only unscaled positions are computed");
    if (rope->number("partial_rotary_factor", 1, 0, 1) != 1)
      keys.refuse(table, "has a partial_rotary_factor other than 1, which is not computed");
    for (const std::string& key : rope->names())
      if (key != "rope_type" && key != "type" && key != "rope_theta" &&
          key != "partial_rotary_factor")
        keys.refuse(table, "has ", key, ", which is not computed");
    if (rope->find("rope_theta")) base = rope->number("rope_theta", 0, 1, 1e15);
  }
  if (!keys.find("rope_theta")) return base.value_or(otherwise);
  const double theta = keys.number("rope_theta", 0, 1, 1e15);
  if (base && *base != theta)
    keys.refuse("rope_theta", "= ", theta, " contradicts that of rope_parameters, ", *base);
  return theta;
}

/// How far back the layer that sees least looks; none where all see the whole context.
std::optional<std::int64_t> window_of(const Keys& keys, std::string_view type,
                                      std::int64_t layers) {
  if (type == "llama" || type == "olmoe") return {};  // their classes know no window
  if (type.starts_with("qwen2")) {
    if (!keys.boolean("use_sliding_window", false)) return {};
    if (!keys.find("layer_types") && keys.integer("max_window_layers", 28, 0) >= layers) return {};
  }
  // Mistral has a window unless the key says null, the others none unless it says one.
  const bool absent = !keys.find("sliding_window");
  if (absent && (type == "mixtral" || keys.null("sliding_window"))) return {};
  return keys.integer("sliding_window", kMistralWindow);
}

/// max_position_embeddings. Where the key is absent and the class's default is longer than a window
/// in use, the window: up to there every layer sees everything, and nobody asked for more.
std::int64_t context_of(const Keys& keys, const HfClass& known, std::int64_t layers) {
  const auto window = window_of(keys, known.type, layers);
  const std::int64_t otherwise = std::min(known.context, window.value_or(known.context));
  const std::int64_t context = keys.integer("max_position_embeddings", otherwise);
  if (window && *window < context)
    keys.refuse("sliding_window", "= ", *window,
                " is shorter than max_position_embeddings = ", context,
                ", and attention within a window is not computed; where no longer text is meant, "
                "set both to ",
                *window);
  return context;
}

/// Sets moe.every and moe.first_layers by the layers that have experts.
void place_experts(const Keys& keys, ModelConfig& config) {
  const std::int64_t step = keys.integer("decoder_sparse_step", 1);
  std::vector<bool> sparse(static_cast<std::size_t>(config.layers));
  for (std::int64_t i = 0; i < config.layers; ++i)
    sparse[static_cast<std::size_t>(i)] = (i + 1) % step == 0;
  if (const json* const only = keys.find("mlp_only_layers")) {
    if (!only->is_array()) keys.refuse("mlp_only_layers", "is not an array");
    for (const json& layer : *only) {
      if (!layer.is_number_integer() ||
          layer.get<std::uint64_t>() >= static_cast<std::uint64_t>(config.layers))
        keys.refuse("mlp_only_layers", "names a layer that is not there");
      sparse[layer.get<std::size_t>()] = false;
    }
  }
  const auto last = std::ranges::find(sparse.rbegin(), sparse.rend(), true);
  if (last == sparse.rend())
    keys.refuse("decoder_sparse_step", "and mlp_only_layers leave no layer with experts");
  const auto second = std::ranges::find(sparse.begin() + 1, sparse.end(), true);
  config.moe.every = second == sparse.end() ? config.layers : second - sparse.begin();
  config.moe.first_layers = sparse.rend() - last;
  if (config.moe.first_layers == config.layers) config.moe.first_layers = -1;
  for (std::int64_t i = 0; i < config.layers; ++i)
    if (config.is_moe(i) != sparse[static_cast<std::size_t>(i)])
      keys.refuse("decoder_sparse_step", "= ", step,
                  " and mlp_only_layers choose layers that are not every n-th of the first m, "
                  "counted from the first");
}

/// The key of the number of experts: these two classes know both names, the first of them better.
const char* experts_key(const Keys& keys, std::string_view type) {
  if (type == "mixtral") return keys.find("num_experts") ? "num_experts" : "num_local_experts";
  const bool local = type == "olmoe" && keys.find("num_local_experts") && !keys.find("num_experts");
  return local ? "num_local_experts" : "num_experts";
}

void read_experts(const Keys& keys, const HfClass& known, ModelConfig& config) {
  const bool mixtral = known.type == "mixtral";
  const char* const count = experts_key(keys, known.type);
  config.moe.experts = keys.integer(count, known.experts, 2);
  const auto used = static_cast<double>(keys.integer("num_experts_per_tok", known.used));
  if (used > static_cast<double>(config.moe.experts))
    keys.refuse("num_experts_per_tok", "= ", used, " is above ", count, " = ", config.moe.experts);
  config.router =
      plain_router({.k = used,
                    .softmax_over_kept = mixtral,
                    .renormalise = !mixtral && keys.boolean("norm_topk_prob", false),
                    .jitter = mixtral ? keys.number("router_jitter_noise", 0, 0, 1) : 0,
                    .balance = keys.number("router_aux_loss_coef", known.balance, 0, 1e6)});
  if (known.type != "qwen2_moe") return;
  place_experts(keys, config);
  config.d_ffn = keys.integer("moe_intermediate_size", kQwen2MoeExpertWidth);
  config.moe.shared_width =
      keys.integer("shared_expert_intermediate_size", kQwen2MoeSharedWidth, 0);
  config.moe.shared_gate = config.moe.shared_width > 0;
  if (config.moe_layers() < config.layers && keys.integer("intermediate_size") != config.d_ffn)
    keys.refuse("intermediate_size", "= ", keys.integer("intermediate_size"),
                " of the layers without experts differs from moe_intermediate_size = ",
                config.d_ffn, ", and layers have one width here");
}

ModelConfig read_class(const Keys& keys, const HfClass& known) {
  refuse_foreign_parts(keys, known.type);
  ModelConfig config;
  config.vocab = keys.integer("vocab_size");
  config.d_model = keys.integer("hidden_size");
  config.layers = keys.integer("num_hidden_layers");
  if (config.layers > 10000) keys.refuse("num_hidden_layers", "is above 10000");
  config.heads = keys.integer("num_attention_heads");
  config.kv_heads = keys.integer(
      "num_key_value_heads",
      known.kv_heads > 0 && !keys.null("num_key_value_heads") ? known.kv_heads : config.heads);
  config.head_dim = keys.integer("head_dim", 0);
  config.d_ffn = known.type == "qwen2_moe" ? 0 : keys.integer("intermediate_size");
  config.context = context_of(keys, known, config.layers);
  if (keys.null("rms_norm_eps")) keys.refuse("rms_norm_eps", "is null; give a number");
  config.norm_eps = keys.number("rms_norm_eps", known.norm_eps, 0, 1);
  config.rope_base = rope_base(keys, known.rope_base);
  config.tie_embeddings = keys.boolean("tie_word_embeddings", false);
  config.qkv_bias =
      known.type == "qwen2" || (known.type == "qwen2_moe" && keys.boolean("qkv_bias", true));
  if (known.type == "olmoe") {
    config.qk_norm = true;
    config.clip_qkv = keys.number("clip_qkv", 0, 1e-30, 1e30);
  }
  if (known.experts > 0) read_experts(keys, known, config);
  return config;
}

}  // namespace

ModelConfig hf_model_config(const json& config, const std::string& path) {
  PENSTOCK_CHECK(config.is_object(), path, ": is not a JSON object");
  const Keys keys(config, path);
  const std::string type = keys.text("model_type", "");
  const auto* const known = std::ranges::find(kClasses, type, &HfClass::type);
  PENSTOCK_CHECK(known != kClasses.end(), path, ": model_type '", type,
                 "' is not one that opens: llama, mistral, qwen2, mixtral, qwen2_moe, olmoe, or a "
                 "config with Penstock's own \"penstock\" table");
  const ModelConfig read = read_class(keys, *known);
  try {
    return read.resolved();
  } catch (const Error& error) {
    fail(path, ": ", error.what());
  }
}

}  // namespace penstock
