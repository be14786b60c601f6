#include "penstock/models/formats/hf_config.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/base/member_names.h"
#include "penstock/models/formats/architectures.h"
#include "penstock/routers/plain_router.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr std::int64_t kMistralWindow = 4096;
constexpr std::int64_t kLargest = std::int64_t{1} << 24;

/// Typed access to the keys, with errors that name them. A null counts as absent.
class Keys {
 public:
  Keys(const json& object, std::string path) : object_(object), path_(std::move(path)) {}

  const json* find(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  /// Whether the key is there with the value null. An absent key gets the default instead.
  bool null(const char* key) const {
    const auto it = object_.find(key);
    return it != object_.end() && it->is_null();
  }
  /// The names of the keys whose value is not null.
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
  /// The object under the key; nothing if the key is absent.
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

/// Refuses features that the decoder does not compute, for any class.
void refuse_foreign_parts(const Keys& keys, const Architecture& known) {
  const std::string activation = keys.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish")
    keys.refuse("hidden_act", "= '", activation, "': only silu is computed");
  if (keys.boolean("mlp_bias", false))
    keys.refuse("mlp_bias", "= true: feed-forward layers have no biases here");
  // Classes that have biases of q, k and v do not read the key.
  if (!known.qkv_bias && keys.boolean("attention_bias", false))
    keys.refuse("attention_bias", "= true: a bias on o_proj is not computed");
  if (const std::string scores = keys.text("scoring_func", "softmax"); scores != "softmax")
    keys.refuse("scoring_func", "= '", scores, "': only softmax is computed");
  if (keys.number("routed_scaling_factor", 1, -1e30, 1e30) != 1)
    keys.refuse("routed_scaling_factor", "other than 1 is not computed");
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

/// The base of rotary positions. Version 4 of transformers has rope_theta beside rope_scaling;
/// version 5 has both in rope_parameters.
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

/// The shortest attention window of any layer; nothing if all layers see the whole context.
std::optional<std::int64_t> window_of(const Keys& keys, Window window, std::int64_t layers) {
  if (window == Window::never) return {};
  if (window >= Window::in_upper_layers && !keys.boolean("use_sliding_window", false)) return {};
  if (window == Window::in_upper_layers && !keys.find("layer_types") &&
      keys.integer("max_window_layers", 28, 0) >= layers)
    return {};
  const bool absent = !keys.find("sliding_window");
  if (absent && (window == Window::where_set || keys.null("sliding_window"))) return {};
  return keys.integer("sliding_window", kMistralWindow);
}

/// The value of max_position_embeddings. If the key is absent, it is the class's default, or the
/// window if that is shorter: every layer sees all positions of such a context.
std::int64_t context_of(const Keys& keys, const HuggingFaceClass& known, std::int64_t layers) {
  const auto window = window_of(keys, known.window, layers);
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

/// The layers that have experts.
std::vector<bool> sparse_layers(const Keys& keys, DenseLayers dense, std::int64_t layers) {
  std::vector<bool> sparse(static_cast<std::size_t>(layers), true);
  if (dense == DenseLayers::leading) {
    const std::int64_t first = keys.integer("first_k_dense_replace", 0, 0),
                       step = keys.integer("moe_layer_freq", 1);
    for (std::int64_t i = 0; i < layers; ++i)
      sparse[static_cast<std::size_t>(i)] = i >= first && i % step == 0;
  }
  if (dense != DenseLayers::listed) return sparse;
  const std::int64_t step = keys.integer("decoder_sparse_step", 1);
  for (std::int64_t i = 0; i < layers; ++i)
    sparse[static_cast<std::size_t>(i)] = (i + 1) % step == 0;
  const json* const only = keys.find("mlp_only_layers");
  if (!only) return sparse;
  if (!only->is_array()) keys.refuse("mlp_only_layers", "is not an array");
  for (const json& layer : *only) {
    if (!layer.is_number_integer() ||
        layer.get<std::uint64_t>() >= static_cast<std::uint64_t>(layers))
      keys.refuse("mlp_only_layers", "names a layer that is not there");
    sparse[layer.get<std::size_t>()] = false;
  }
  return sparse;
}

/// Sets moe.dense_layers, moe.every and moe.first_layers by the layers that have experts.
void place_experts(const Keys& keys, DenseLayers dense, ModelConfig& config) {
  const std::vector<bool> sparse = sparse_layers(keys, dense, config.layers);
  const char* const key =
      dense == DenseLayers::leading ? "first_k_dense_replace" : "decoder_sparse_step";
  const auto last = std::ranges::find(sparse.rbegin(), sparse.rend(), true);
  if (last == sparse.rend())
    keys.refuse(key, "and ", dense == DenseLayers::leading ? "moe_layer_freq" : "mlp_only_layers",
                " leave no layer with experts");
  const auto first = std::ranges::find(sparse, true);
  const auto second = std::ranges::find(first + 1, sparse.end(), true);
  config.moe.dense_layers = first - sparse.begin();
  config.moe.every = second == sparse.end() ? 1 : second - first;
  config.moe.first_layers = sparse.rend() - last;
  if (config.moe.first_layers == config.layers) config.moe.first_layers = -1;
  for (std::int64_t i = 0; i < config.layers; ++i)
    if (config.is_moe(i) != sparse[static_cast<std::size_t>(i)])
      keys.refuse(key,
                  "and the keys beside it choose layers that are not every n-th from one to "
                  "another");
}

/// The key of the number of experts. Most classes accept two names and prefer the first.
const char* experts_key(const Keys& keys, const HuggingFaceClass& known) {
  if (known.experts_key == std::string_view("n_routed_experts")) return known.experts_key;
  for (const char* const key : {"num_experts", "num_local_experts"})
    if (keys.find(key)) return key;
  return known.experts_key;
}

/// The default of a key; nothing if `value` is 0, and then the key must be there.
std::optional<std::int64_t> or_missing(std::int64_t value) {
  return value > 0 ? std::optional(value) : std::nullopt;
}

/// Reads the widths of experts, of the shared expert and of dense layers from their own keys.
void read_expert_widths(const Keys& keys, const Architecture& known, ModelConfig& config) {
  config.d_ffn = keys.integer("moe_intermediate_size", known.hf.expert_width);
  if (known.shared == SharedExpert::gated)
    config.moe.shared_width =
        keys.integer("shared_expert_intermediate_size", known.hf.shared_width, 0);
  if (known.shared == SharedExpert::plain)
    config.moe.shared_width = config.d_ffn * keys.integer("n_shared_experts", 0, 0);
  if (config.moe.shared_width > kLargest)
    keys.refuse("n_shared_experts", "makes the shared experts wider than ", kLargest);
  config.moe.shared_gate = known.shared == SharedExpert::gated && config.moe.shared_width > 0;
  if (config.moe_layers() == config.layers) return;
  const std::int64_t dense = keys.integer("intermediate_size");
  if (dense != config.d_ffn) config.moe.dense_width = dense;
}

void read_experts(const Keys& keys, const Architecture& known, ModelConfig& config) {
  const char* const count = experts_key(keys, known.hf);
  config.moe.experts = keys.integer(count, or_missing(known.hf.experts), 2);
  const auto used =
      static_cast<double>(keys.integer("num_experts_per_tok", or_missing(known.hf.used)));
  if (used > static_cast<double>(config.moe.experts))
    keys.refuse("num_experts_per_tok", "= ", used, " is above ", count, " = ", config.moe.experts);
  config.router =
      plain_router({.k = used,
                    .softmax_over_kept = known.sums_to_one,
                    .renormalise = !known.sums_to_one && keys.boolean("norm_topk_prob", false) &&
                                   (known.hf.divides_single_gate || used > 1),
                    .jitter = known.sums_to_one ? keys.number("router_jitter_noise", 0, 0, 1) : 0,
                    .balance = keys.number(known.hf.balance_key, known.hf.balance, 0, 1e6)});
  if (known.hf.expert_width == 0) return;
  place_experts(keys, known.dense, config);
  read_expert_widths(keys, known, config);
}

ModelConfig read_class(const Keys& keys, const Architecture& known) {
  refuse_foreign_parts(keys, known);
  ModelConfig config;
  config.vocab = keys.integer("vocab_size");
  config.d_model = keys.integer("hidden_size");
  config.layers = keys.integer("num_hidden_layers");
  if (config.layers > 10000) keys.refuse("num_hidden_layers", "is above 10000");
  config.heads = keys.integer("num_attention_heads");
  config.kv_heads =
      keys.integer("num_key_value_heads", known.hf.kv_heads > 0 && !keys.null("num_key_value_heads")
                                              ? known.hf.kv_heads
                                              : config.heads);
  config.head_dim = keys.integer("head_dim", 0);
  if (known.hf.expert_width == 0) config.d_ffn = keys.integer("intermediate_size");
  config.context = context_of(keys, known.hf, config.layers);
  if (keys.null("rms_norm_eps")) keys.refuse("rms_norm_eps", "is null; give a number");
  config.norm_eps = keys.number("rms_norm_eps", known.hf.norm_eps, 0, 1);
  config.rope_base = rope_base(keys, known.hf.rope_base);
  config.tie_embeddings = keys.boolean("tie_word_embeddings", false);
  config.qkv_bias = known.qkv_bias && (!known.experts || keys.boolean("qkv_bias", true));
  config.qk_norm = known.qk_norm == QkNorm::whole;
  config.qk_norm_per_head = known.qk_norm == QkNorm::head;
  if (known.clips_qkv) config.clip_qkv = keys.number("clip_qkv", 0, 1e-30, 1e30);
  if (known.experts) read_experts(keys, known, config);
  return config;
}

/// The file's key for a key of ModelConfig; "" if the file has no such key.
std::string key_of_file(const Keys& keys, const Architecture& known, const std::string& key) {
  if (key == "model.d_ffn")
    return known.hf.expert_width > 0 ? "moe_intermediate_size" : "intermediate_size";
  if (key == "model.moe.experts") return experts_key(keys, known.hf);
  if (key == "model.moe.shared_width" && known.shared == SharedExpert::gated)
    return "shared_expert_intermediate_size";
  static constexpr std::array<std::pair<std::string_view, const char*>, 7> kNames = {
      {{"model.vocab", "vocab_size"},
       {"model.d_model", "hidden_size"},
       {"model.layers", "num_hidden_layers"},
       {"model.heads", "num_attention_heads"},
       {"model.kv_heads", "num_key_value_heads"},
       {"model.head_dim", "head_dim"},
       {"model.moe.dense_width", "intermediate_size"}}};
  const auto* const found =
      std::ranges::find(kNames, key, &std::pair<std::string_view, const char*>::first);
  return found == kNames.end() ? "" : found->second;
}

}  // namespace

ModelConfig hf_model_config(const json& config, const std::string& path) {
  PENSTOCK_CHECK(config.is_object(), path, ": is not a JSON object");
  const Keys keys(config, path);
  const std::string type = keys.text("model_type", "");
  if (type.empty())
    keys.refuse("model_type", "is missing; is this the config of a language model?");
  const auto known = std::ranges::find_if(
      architectures(), [&](const Architecture& one) { return one.hf.model_type == type; });
  PENSTOCK_CHECK(known != architectures().end(), path, ": model_type '", type,
                 "' is not one that opens: ",
                 list_architectures([](const Architecture& one) { return one.hf.model_type; }),
                 ", or a config with Penstock's own \"penstock\" table");
  const ModelConfig read = read_class(keys, *known);
  try {
    return read.resolved();
  } catch (const Error& error) {
    fail(path, ": ", with_model_keys(error.what(), [&](const std::string& key) {
           return key_of_file(keys, *known, key);
         }));
  }
}

}  // namespace penstock
